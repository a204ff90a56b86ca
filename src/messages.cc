// Sends and receives. Before each message goes a header, so that a receiver whose count or type differs gets
// an error that names both, and not somebody else's bytes.
#include <algorithm>
#include <deque>
#include <map>

#include "src/collective.h"
#include "src/error.h"

namespace rondo {
namespace {

struct Header {
  std::uint64_t bytes;
  std::int32_t type;
  std::int32_t unused;
};

Header header_of(const Message& message) {
  return {message.extent.bytes, static_cast<std::int32_t>(message.type), 0};
}

void check(const Header& sent, const Message& message) {
  const auto type = static_cast<DataType>(sent.type);
  if (sent.bytes == message.extent.bytes && type == message.type) return;
  fail(ErrorKind::invalid_usage, "message from rank {}: sent {} x {}, received as {} x {}", message.peer,
       sent.bytes / size_of(type), name_of(type), message.extent.bytes / size_of(message.type),
       name_of(message.type));
}

// The first send to this rank itself meets the first receive from it, whichever comes first.
std::vector<std::pair<const Message*, const Message*>> pairs_to_self(const Call& call, int rank) {
  std::vector<std::pair<const Message*, const Message*>> pairs;
  std::deque<const Message*> open;
  for (const Message& message : call.messages) {
    if (message.peer != rank) continue;
    if (open.empty() || open.front()->direction == message.direction) {
      open.push_back(&message);
      continue;
    }
    const bool is_send = message.direction == Message::Direction::send;
    pairs.emplace_back(is_send ? &message : open.front(), is_send ? open.front() : &message);
    open.pop_front();
    check(header_of(*pairs.back().first), *pairs.back().second);
  }
  if (!open.empty())
    fail(ErrorKind::invalid_usage,
         "rank {} has {} message(s) to itself without the other half in the same group", rank, open.size());
  return pairs;
}

class Messages : public Collective {
 public:
  Messages(const Call& call, const Place& place) : place_(place) {
    for (const auto& [from, to] : pairs_to_self(call, place.rank))
      copy_extents(std::span(&from->extent, 1), std::span(&to->extent, 1));
    for (const Message& message : call.messages) {
      if (message.peer == place.rank) continue;
      if (message.direction == Message::Direction::send) {
        send(message);
      } else {
        receivers_[message.peer].waiting.push_back(&message);
      }
    }
  }

  bool step() override {
    bool complete = true;
    for (auto& [peer, receiver] : receivers_) complete &= receive(peer, receiver);
    for (const auto& [peer, ticket] : sends_) complete &= place_.transport.done(ticket);
    return complete;
  }

  bool waits_for(int peer) const override {
    const auto receiver = receivers_.find(peer);
    if (receiver != receivers_.end() && !receiver->second.waiting.empty()) return true;
    return std::any_of(sends_.begin(), sends_.end(), [&](const auto& sent) {
      return sent.first == peer && !place_.transport.done(sent.second);
    });
  }

 private:
  struct Receiver {
    std::deque<const Message*> waiting;
    enum class Next { post_header, header, data } next = Next::post_header;
    Header header{};
    Ticket ticket;
  };

  void send(const Message& message) {
    headers_.push_back(header_of(message));
    const Extent header{reinterpret_cast<std::byte*>(&headers_.back()), sizeof(Header)};
    Transport& transport = place_.transport;
    sends_.emplace_back(message.peer, transport.post_send(message.peer, Channel::message,
                                                          std::span(&header, 1), ByteClass::protocol));
    sends_.emplace_back(message.peer, transport.post_send(message.peer, Channel::message,
                                                          std::span(&message.extent, 1), ByteClass::payload));
  }

  bool receive(int peer, Receiver& receiver) {
    Transport& transport = place_.transport;
    while (!receiver.waiting.empty()) {
      const Message& message = *receiver.waiting.front();
      switch (receiver.next) {
        case Receiver::Next::post_header: {
          const Extent header{reinterpret_cast<std::byte*>(&receiver.header), sizeof(Header)};
          receiver.ticket = transport.post_receive(peer, Channel::message, std::span(&header, 1));
          receiver.next = Receiver::Next::header;
          transport.progress();
          break;
        }
        case Receiver::Next::header:
          if (!transport.done(receiver.ticket)) return false;
          check(receiver.header, message);
          receiver.ticket = transport.post_receive(peer, Channel::message, std::span(&message.extent, 1));
          receiver.next = Receiver::Next::data;
          transport.progress();
          break;
        case Receiver::Next::data:
          if (!transport.done(receiver.ticket)) return false;
          receiver.waiting.pop_front();
          receiver.next = Receiver::Next::post_header;
          break;
      }
    }
    return true;
  }

  Place place_;
  std::deque<Header> headers_;                 // as they travel
  std::vector<std::pair<int, Ticket>> sends_;  // and to whom
  std::map<int, Receiver> receivers_;
};

}  // namespace

void check_messages_to_self(const Call& call, int rank) { pairs_to_self(call, rank); }

std::unique_ptr<Collective> make_messages(const Call& call, const Place& place) {
  return std::make_unique<Messages>(call, place);
}

}  // namespace rondo
