// Sends and receives. Before each message goes a header, so that a receiver whose count or type differs gets
// an error that names both, and not somebody else's bytes.
#include <cstring>
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

class Messages : public Collective {
 public:
  Messages(const Call& call, const Place& place) : place_(place) {
    std::deque<const Message*> to_self;
    for (const Message& message : call.messages) {
      if (message.peer == place.rank) {
        meet_self(message, to_self);
      } else if (message.direction == Message::Direction::send) {
        send(message);
      } else {
        receivers_[message.peer].waiting.push_back(&message);
      }
    }
    if (!to_self.empty())
      fail(ErrorKind::invalid_usage,
           "rank {} has {} message(s) to itself without the other half in the same group", place.rank,
           to_self.size());
  }

  bool step() override {
    bool complete = true;
    for (auto& [peer, receiver] : receivers_) complete &= receive(peer, receiver);
    for (const Ticket& ticket : sends_) complete &= place_.transport.done(ticket);
    return complete;
  }

 private:
  struct Receiver {
    std::deque<const Message*> waiting;
    enum class Next { post_header, header, data } next = Next::post_header;
    Header header{};
    Ticket ticket;
  };

  // The first send meets the first receive, whichever comes first.
  void meet_self(const Message& message, std::deque<const Message*>& open) {
    if (open.empty() || open.front()->direction == message.direction) return open.push_back(&message);
    const bool is_send = message.direction == Message::Direction::send;
    const Message &from = is_send ? message : *open.front(), &to = is_send ? *open.front() : message;
    check({from.extent.bytes, static_cast<std::int32_t>(from.type), 0}, to);
    copy_extents(std::span(&from.extent, 1), std::span(&to.extent, 1));
    open.pop_front();
  }

  void send(const Message& message) {
    headers_.push_back({message.extent.bytes, static_cast<std::int32_t>(message.type), 0});
    const Extent header{reinterpret_cast<std::byte*>(&headers_.back()), sizeof(Header)};
    Transport& transport = place_.transport;
    sends_.push_back(
        transport.post_send(message.peer, Channel::message, std::span(&header, 1), ByteClass::protocol));
    sends_.push_back(transport.post_send(message.peer, Channel::message, std::span(&message.extent, 1),
                                         ByteClass::payload));
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

  void check(const Header& sent, const Message& message) const {
    const auto type = static_cast<DataType>(sent.type);
    if (sent.bytes == message.extent.bytes && type == message.type) return;
    fail(ErrorKind::invalid_usage, "message from rank {}: sent {} x {}, received as {} x {}", message.peer,
         sent.bytes / size_of(type), name_of(type), message.extent.bytes / size_of(message.type),
         name_of(message.type));
  }

  Place place_;
  std::deque<Header> headers_;  // as they travel
  std::vector<Ticket> sends_;
  std::map<int, Receiver> receivers_;
};

}  // namespace

std::unique_ptr<Collective> make_messages(const Call& call, const Place& place) {
  return std::make_unique<Messages>(call, place);
}

}  // namespace rondo
