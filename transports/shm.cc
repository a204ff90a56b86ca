// Byte streams between ranks of one host, in the communicator's shared segment. The sender copies into a ring
// of `stream_bytes`, the receiver copies out; each publishes its counter and rings the other's bell.
#include <algorithm>
#include <cstring>
#include <deque>

#include "src/transport.h"

namespace rondo {
namespace {

// One end of one stream, with the transfers that wait for it.
class StreamEnd {
 public:
  struct Transfer {
    Extents extents;
    ByteClass byte_class;
    std::size_t extent = 0, offset = 0;  // how far it has come
  };

  StreamEnd(StreamLines& lines, std::span<std::byte> data, const Segment& segment, int peer)
      : lines_(lines), data_(data), segment_(segment), peer_(peer) {}

  std::uint64_t post(Transfer transfer) {
    transfers_.push_back(std::move(transfer));
    return ++posted_;
  }
  bool done(std::uint64_t number) const { return ended_ >= number; }
  bool idle() const { return transfers_.empty(); }
  int peer() const { return peer_; }

  // Copies pieces as long as `copy_piece` finds room or data. True if anything moved.
  template <typename CopyPiece>
  bool advance(CopyPiece copy_piece) {
    bool moved = false;
    while (!transfers_.empty()) {
      Transfer& transfer = transfers_.front();
      while (transfer.extent < transfer.extents.size()) {
        const Extent& extent = transfer.extents[transfer.extent];
        const std::size_t bytes =
            copy_piece(extent.data + transfer.offset, extent.bytes - transfer.offset, transfer);
        if (bytes == 0 && transfer.offset < extent.bytes) return moved;
        moved = true;
        transfer.offset += bytes;
        if (transfer.offset == extent.bytes) ++transfer.extent, transfer.offset = 0;
      }
      transfers_.pop_front();
      ++ended_;
      moved = true;
    }
    return moved;
  }

 protected:
  // A piece ends where the ring wraps. Pieces of a quarter let both ends copy at the same time.
  std::size_t piece(std::size_t wanted, std::uint64_t available, std::uint64_t position) const {
    const std::size_t to_wrap = data_.size() - position % data_.size();
    const std::size_t quarter = std::max<std::size_t>(data_.size() / 4, 1);
    return std::min({wanted, static_cast<std::size_t>(available), to_wrap, quarter});
  }
  std::byte* at(std::uint64_t position) const { return data_.data() + position % data_.size(); }

  StreamLines& lines_;
  std::span<std::byte> data_;
  const Segment& segment_;

 private:
  int peer_;
  std::deque<Transfer> transfers_;
  std::uint64_t posted_ = 0, ended_ = 0;
};

class SendEnd : public StreamEnd {
 public:
  SendEnd(StreamLines& lines, std::span<std::byte> data, const Segment& segment, int peer)
      : StreamEnd(lines, data, segment, peer), written_(lines.written), read_(lines.read) {}

  bool progress(Traffic& traffic) {
    return advance([&](const std::byte* from, std::size_t wanted, const Transfer& transfer) {
      // Acquires the room: the receiver has finished reading what we are about to overwrite. Sequentially
      // consistent: a rank that goes to sleep must see a counter stored before its bell was looked at.
      if (written_ - read_ == data_.size()) read_ = lines_.read.load(std::memory_order_seq_cst);
      const std::size_t bytes = piece(wanted, data_.size() - (written_ - read_), written_);
      if (bytes == 0) return bytes;
      std::memcpy(at(written_), from, bytes);
      traffic.count(transfer.byte_class, peer(), bytes);
      written_ += bytes;
      // Releases the bytes to the receiver; sequentially consistent for ring().
      lines_.written.store(written_, std::memory_order_seq_cst);
      segment_.ring(peer());
      return bytes;
    });
  }

 private:
  std::uint64_t written_, read_;  // ours, and what we know of the receiver's
};

class ReceiveEnd : public StreamEnd {
 public:
  // Nothing is known of the sender at first: it may have written before this end was made.
  ReceiveEnd(StreamLines& lines, std::span<std::byte> data, const Segment& segment, int peer)
      : StreamEnd(lines, data, segment, peer), written_(lines.read), read_(lines.read) {}

  bool progress() {
    return advance([&](std::byte* to, std::size_t wanted, const Transfer&) {
      if (written_ == read_) written_ = lines_.written.load(std::memory_order_seq_cst);
      const std::size_t bytes = piece(wanted, written_ - read_, read_);
      if (bytes == 0) return bytes;
      std::memcpy(to, at(read_), bytes);
      read_ += bytes;
      lines_.read.store(read_, std::memory_order_seq_cst);
      segment_.ring(peer());
      return bytes;
    });
  }

 private:
  std::uint64_t written_, read_;
};

class ShmTransport : public Transport {
 public:
  ShmTransport(std::shared_ptr<Segment> segment, int rank, int size)
      : segment_(std::move(segment)), rank_(rank), traffic_(size) {
    for (int peer = 0; peer < size; ++peer) {
      for (const Channel channel : {Channel::collective, Channel::message}) {
        senders_.emplace_back(segment_->stream(rank, peer, channel),
                              segment_->stream_data(rank, peer, channel), *segment_, peer);
        receivers_.emplace_back(segment_->stream(peer, rank, channel),
                                segment_->stream_data(peer, rank, channel), *segment_, peer);
      }
    }
    reserved_.resize(senders_.size());
  }

  Ticket post_send(int peer, Channel channel, std::span<const Extent> extents,
                   ByteClass byte_class) override {
    const std::size_t index = index_of(peer, channel);
    if (!reserved_[index]) {
      segment_->reserve(segment_->stream_data(rank_, peer, channel));
      reserved_[index] = true;
    }
    SendEnd& sender = senders_[index];
    if (sender.idle()) busy_senders_.push_back(&sender);
    const std::uint64_t number = sender.post({{extents.begin(), extents.end()}, byte_class});
    return {static_cast<int>(2 * index), number};
  }

  Ticket post_receive(int peer, Channel channel, std::span<const Extent> extents) override {
    const std::size_t index = index_of(peer, channel);
    ReceiveEnd& receiver = receivers_[index];
    if (receiver.idle()) busy_receivers_.push_back(&receiver);
    const std::uint64_t number = receiver.post({{extents.begin(), extents.end()}, ByteClass::payload});
    return {static_cast<int>(2 * index + 1), number};
  }

  bool done(Ticket ticket) const override {
    if (ticket.stream < 0) return true;
    const auto index = static_cast<std::size_t>(ticket.stream) / 2;
    return ticket.stream % 2 == 0 ? senders_[index].done(ticket.number)
                                  : receivers_[index].done(ticket.number);
  }

  bool progress() override {
    bool moved = false;
    for (SendEnd* sender : busy_senders_) moved |= sender->progress(traffic_);
    for (ReceiveEnd* receiver : busy_receivers_) moved |= receiver->progress();
    std::erase_if(busy_senders_, [](const SendEnd* sender) { return sender->idle(); });
    std::erase_if(busy_receivers_, [](const ReceiveEnd* receiver) { return receiver->idle(); });
    return moved;
  }

  Traffic& traffic() override { return traffic_; }

 private:
  static std::size_t index_of(int peer, Channel channel) {
    return static_cast<std::size_t>(peer * channel_count + static_cast<int>(channel));
  }

  std::shared_ptr<Segment> segment_;
  int rank_;
  Traffic traffic_;
  std::deque<SendEnd> senders_;  // by peer and channel
  std::deque<ReceiveEnd> receivers_;
  std::vector<SendEnd*> busy_senders_;
  std::vector<ReceiveEnd*> busy_receivers_;
  std::vector<bool> reserved_;
};

}  // namespace

std::unique_ptr<Transport> make_shm_transport(std::shared_ptr<Segment> segment, int rank, int size) {
  return std::make_unique<ShmTransport>(std::move(segment), rank, size);
}

}  // namespace rondo
