// Between hosts: tagged messages of UCX. Each rank of each communicator has a worker of its own, so a tag is
// no more than sender and channel, and UCX matches messages of one sender in the order in which they were
// sent.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>

#include "src/error.h"
#include "src/log.h"
#include "src/network.h"
#include "src/process.h"
#include "transports/ucx_devices.h"
#include "transports/ucx_library.h"

namespace rondo {
namespace {

using namespace std::chrono_literals;

void need(ucs_status_t status, const char* doing) {
  if (status != UCS_OK) fail(ErrorKind::system, "UCX, {}: {}", doing, ucx().ucs_status_string(status));
}

struct Destroy {
  void operator()(ucp_config_t* config) const { ucx().ucp_config_release(config); }
  void operator()(ucp_context_h context) const { ucx().ucp_cleanup(context); }
  void operator()(ucp_worker_h worker) const { ucx().ucp_worker_destroy(worker); }
};
using Config = std::unique_ptr<ucp_config_t, Destroy>;
using Context = std::unique_ptr<ucp_context, Destroy>;
using Worker = std::unique_ptr<ucp_worker, Destroy>;

Context make_context(const std::string& devices) {
  ucp_config_t* raw = nullptr;
  need(ucx().ucp_config_read(nullptr, nullptr, &raw), "reading its settings");
  const Config config(raw);
  // Shared memory would pass by the wire between namespaces of one machine; within a host we have our own.
  if (std::getenv("UCX_TLS") == nullptr)
    need(ucx().ucp_config_modify(config.get(), "TLS", "^shm,self"), "choosing transports");
  // Else a connection to a host that is not there any more would keep its caller for minutes.
  // An old UCX takes any name and heeds this one without its transport; a newer one refuses it so.
  if (std::getenv("UCX_TCP_CONN_NB") == nullptr &&
      ucx().ucp_config_modify(config.get(), "CONN_NB", "y") != UCS_OK)
    need(ucx().ucp_config_modify(config.get(), "TCP_CONN_NB", "y"), "choosing how to connect");
  if (!devices.empty()) {
    need_network_devices(devices);
    need(ucx().ucp_config_modify(config.get(), "NET_DEVICES", devices.c_str()), "choosing devices");
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  need(ucx().ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config.get(), &context), "starting");
  return Context(context);
}

Worker make_worker(const Context& context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // whoever waits drives, under the communicator's lock
  ucp_worker_h worker = nullptr;
  need(ucx().ucp_worker_create(context.get(), &params, &worker), "making a worker");
  return Worker(worker);
}

// A transfer under way. UCX's callback finds it by its address, so it stays where it is.
struct Transfer {
  int peer;
  ByteClass byte_class;
  std::size_t bytes;
  std::vector<ucp_dt_iov_t> pieces;
  void* request = nullptr;  // UCX's, while it is under way
  bool ended = false;
  ucs_status_t status = UCS_OK;
  std::size_t received = 0;

  void end(ucs_status_t how, std::size_t length) {
    request = nullptr;
    status = how;
    received = length;
    ended = true;
  }
};

void send_ended(void* request, ucs_status_t status, void* transfer) {
  ucx().ucp_request_free(request);
  static_cast<Transfer*>(transfer)->end(status, 0);
}

void receive_ended(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* transfer) {
  ucx().ucp_request_free(request);
  static_cast<Transfer*>(transfer)->end(status, info->length);
}

// The transfers of one peer, channel and direction.
struct Stream {
  std::deque<Transfer> transfers;
  std::uint64_t posted = 0, ended = 0;
};

// A word on its way. UCX reads it until it says that it is done.
struct OutgoingWord {
  std::int32_t from;
  std::vector<std::byte> text;
  void* request = nullptr;
};

struct Peer {
  std::vector<std::byte> address;
  ucp_ep_h endpoint = nullptr;  // made at the first transfer either way: it also tells of the peer's end
  bool lost = false;
  ucs_status_t unreachable = UCS_OK;  // why no endpoint could be made
};

// Counts the networks of this process. A child that was forked from a process which has some cannot have its
// own: UCX's thread and descriptors are the parent's.
class Count {
 public:
  Count() {
    const std::lock_guard lock(mutex_);
    if (generation_ != fork_generation() && count_ > 0)
      fail(
          ErrorKind::invalid_usage,
          "this process was forked from one that has communicators over several hosts: expected a process of "
          "its own, or a parent without them");
    generation_ = fork_generation();
    ++count_;
  }
  ~Count() {
    const std::lock_guard lock(mutex_);
    --count_;
  }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline std::uint64_t generation_ = 0;
  static inline int count_ = 0;
};

class UcxNetwork : public Network {
 public:
  UcxNetwork(int rank, int size, const std::string& devices)
      : rank_(rank),
        traffic_(size),
        peers_(static_cast<std::size_t>(size)),
        streams_(static_cast<std::size_t>(size * channel_count * 2)),
        context_(make_context(devices)),
        worker_(make_worker(context_)) {
    need(ucx().ucp_worker_get_efd(worker_.get(), &descriptor_), "asking for its event descriptor");
    ucp_am_handler_param_t handler{};
    handler.field_mask =
        UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = word_id;
    handler.cb = word_came;
    handler.arg = this;
    need(ucx().ucp_worker_set_am_recv_handler(worker_.get(), &handler), "listening to words");
  }

  ~UcxNetwork() override {
    abandon();
    if (!stuck_) {
      close_all([](const Peer&) { return true; });
      drop_unexpected();
      if (flush(Deadline::after(closing_time))) return;
    }
    // UCX 1.13 ends the program when a worker ends that still waits to answer somebody's connection.
    logger().info("a connection of rank {} does not end: what UCX holds for it stays", rank_);
    [[maybe_unused]] const auto* worker = worker_.release();
    [[maybe_unused]] const auto* context = context_.release();
  }
  UcxNetwork(const UcxNetwork&) = delete;
  UcxNetwork& operator=(const UcxNetwork&) = delete;

  std::vector<std::byte> address() const override {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    need(ucx().ucp_worker_get_address(worker_.get(), &address, &bytes), "asking for its address");
    const auto* begin = reinterpret_cast<const std::byte*>(address);
    std::vector<std::byte> copy(begin, begin + bytes);
    ucx().ucp_worker_release_address(worker_.get(), address);
    return copy;
  }

  void set_addresses(std::vector<std::vector<std::byte>> addresses) override {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      peers_[rank].address = std::move(addresses[rank]);
  }

  Ticket post_send(int peer, Channel channel, std::span<const Extent> extents,
                   ByteClass byte_class) override {
    return post(peer, channel, extents, byte_class, true);
  }
  Ticket post_receive(int peer, Channel channel, std::span<const Extent> extents) override {
    return post(peer, channel, extents, ByteClass::payload, false);
  }

  bool done(Ticket ticket) const override {
    return ticket.stream < 0 || streams_[static_cast<std::size_t>(ticket.stream)].ended >= ticket.number;
  }

  bool progress() override {
    bool moved = turn_over();
    for (auto busy = busy_.begin(); busy != busy_.end();) {
      moved |= settle(streams_[*busy]);
      busy = streams_[*busy].transfers.empty() ? busy_.erase(busy) : std::next(busy);
    }
    return moved | hear_words();
  }

  Traffic& traffic() override { return traffic_; }

  void tell(int peer, Bytes word) override {
    if (stuck_ || !connect(peer)) return;
    std::erase_if(words_out_, [](const OutgoingWord& old) { return old.request == nullptr; });
    OutgoingWord& out = words_out_.emplace_back(OutgoingWord{rank_, {word.begin(), word.end()}});
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = [](void* request, ucs_status_t, void* told) {
      ucx().ucp_request_free(request);
      static_cast<OutgoingWord*>(told)->request = nullptr;
    };
    param.user_data = &out;
    void* request = ucx().ucp_am_send_nbx(at(peer).endpoint, word_id, &out.from, sizeof out.from,
                                          out.text.data(), out.text.size(), &param);
    if (UCS_PTR_IS_PTR(request)) out.request = request;
    if (UCS_PTR_IS_ERR(request)) at(peer).lost = true;
  }
  void on_word(std::function<void(int, Bytes)> hear) override { hear_ = std::move(hear); }

  bool lost(int peer) const override { return peers_[static_cast<std::size_t>(peer)].lost; }
  bool knows(int peer) const override { return peers_[static_cast<std::size_t>(peer)].endpoint != nullptr; }
  bool has_transfers(int peer) const override {
    return any_stream(peer, [](const Stream& stream) { return !stream.transfers.empty(); });
  }

  void set_gone(int peer) override { at(peer).lost = true; }

  bool flush(Deadline deadline) override {
    if (stuck_) return false;
    ucp_request_param_t param{};
    void* request = ucx().ucp_worker_flush_nbx(worker_.get(), &param);
    if (!UCS_PTR_IS_PTR(request)) return true;
    while (ucx().ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.passed()) turn_over();
    const bool complete = ucx().ucp_request_check_status(request) != UCS_INPROGRESS;
    ucx().ucp_request_free(request);
    return complete;
  }

  void abandon() override {
    for (const std::size_t index : busy_)
      for (Transfer& transfer : streams_[index].transfers)
        if (is_receive(index) && transfer.request != nullptr)
          ucx().ucp_request_cancel(worker_.get(), transfer.request);
    turn_over();
    // Sends, and receives whose data are coming in already, end with their connection.
    close_all([this](const Peer& peer) { return is_in_use(static_cast<int>(&peer - peers_.data())); });
    for (const std::size_t index : busy_) keep_if_stuck(streams_[index].transfers);
    for (Stream& stream : streams_) stream.transfers.clear();
    busy_.clear();
  }

  bool arm() override { return ucx().ucp_worker_arm(worker_.get()) == UCS_OK; }
  int descriptor() const override { return descriptor_; }

 private:
  static constexpr unsigned word_id = 1;
  static constexpr auto closing_time = 500ms;

  static bool is_receive(std::size_t index) { return index % 2 == 1; }
  Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }

  template <typename Has>
  bool any_stream(int peer, Has has) const {
    const auto first = streams_.begin() + peer * channel_count * 2;
    return std::any_of(first, first + channel_count * 2, has);
  }
  // Whether UCX may still read or write a transfer's memory.
  bool is_in_use(int peer) const {
    return any_stream(peer, [](const Stream& stream) {
      return std::any_of(stream.transfers.begin(), stream.transfers.end(),
                         [](const Transfer& transfer) { return !transfer.ended; });
    });
  }

  // Whether there is an endpoint, or one could be made.
  bool connect(int peer) {
    Peer& there = at(peer);
    if (there.lost || there.endpoint != nullptr) return !there.lost;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(there.address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* lost, ucp_ep_h, ucs_status_t) { static_cast<Peer*>(lost)->lost = true; };
    params.err_handler.arg = &there;
    ucp_ep_h endpoint = nullptr;
    const ucs_status_t status = ucx().ucp_ep_create(worker_.get(), &params, &endpoint);
    if (status == UCS_OK) {
      there.endpoint = endpoint;
    } else {
      there.lost = true;
      there.unreachable = status;
    }
    return !there.lost;
  }

  Ticket post(int peer, Channel channel, std::span<const Extent> extents, ByteClass byte_class, bool send) {
    const std::size_t bytes = total_bytes(extents);
    if (bytes == 0) return {};
    const bool connected = connect(peer);
    if (at(peer).unreachable != UCS_OK)
      fail(ErrorKind::system,
           "UCX finds no way from here to rank {}: {} (RONDO_NET_DEVICES, UCX_TLS, or a link that is down?)",
           peer, ucx().ucs_status_string(at(peer).unreachable));
    const auto index =
        static_cast<std::size_t>((peer * channel_count + static_cast<int>(channel)) * 2 + (send ? 0 : 1));
    Stream& stream = streams_[index];
    if (stream.transfers.empty()) busy_.push_back(index);
    Transfer& transfer = stream.transfers.emplace_back(Transfer{peer, byte_class, bytes, {}});
    for (const Extent& extent : extents)
      if (extent.bytes > 0) transfer.pieces.push_back({extent.data, extent.bytes});

    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
    param.user_data = &transfer;
    const bool whole = transfer.pieces.size() == 1;
    param.datatype = whole ? ucp_dt_make_contig(1) : ucp_dt_make_iov();
    void* const buffer = whole ? transfer.pieces[0].buffer : transfer.pieces.data();
    const std::size_t count = whole ? bytes : transfer.pieces.size();
    if (send && !connected) {
      transfer.end(UCS_ERR_UNREACHABLE, 0);
      return {static_cast<int>(index), ++stream.posted};
    }
    void* request = nullptr;
    if (send) {
      param.cb.send = send_ended;
      request = ucx().ucp_tag_send_nbx(at(peer).endpoint, buffer, count, tag(rank_, channel), &param);
    } else {
      // UCX 1.13 tells the length of what came at once only to a callback, which may be called in here.
      param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
      param.cb.recv = receive_ended;
      request =
          ucx().ucp_tag_recv_nbx(worker_.get(), buffer, count, tag(peer, channel), ~ucp_tag_t{0}, &param);
    }
    if (!UCS_PTR_IS_PTR(request))
      transfer.end(UCS_PTR_STATUS(request), 0);
    else if (!transfer.ended)
      transfer.request = request;
    return {static_cast<int>(index), ++stream.posted};
  }

  static ucp_tag_t tag(int from, Channel channel) {
    return static_cast<ucp_tag_t>(from) << 8 | static_cast<ucp_tag_t>(channel);
  }

  // A message of which a part has come cannot be called off: UCX would write the rest of it to its memory,
  // which is the caller's again, as soon as it moved on. So this worker never does.
  void keep_if_stuck(std::deque<Transfer>& transfers) {
    if (std::all_of(transfers.begin(), transfers.end(), [](const Transfer& one) { return one.ended; }))
      return;
    static std::mutex mutex;
    static auto& kept = *new std::list<std::deque<Transfer>>;
    const std::lock_guard lock(mutex);
    kept.push_back(std::move(transfers));
    stuck_ = true;
  }

  bool turn_over() { return !stuck_ && ucx().ucp_worker_progress(worker_.get()) != 0; }

  // Books the transfers that have ended, in the order of the stream.
  bool settle(Stream& stream) {
    bool moved = false;
    const bool receive = is_receive(static_cast<std::size_t>(&stream - streams_.data()));
    while (!stream.transfers.empty() && stream.transfers.front().ended) {
      const Transfer& transfer = stream.transfers.front();
      if (receive && (transfer.status == UCS_ERR_MESSAGE_TRUNCATED ||
                      (transfer.status == UCS_OK && transfer.received != transfer.bytes)))
        fail(ErrorKind::invalid_usage,
             "rank {} sent {} bytes where {} were expected: the ranks make different calls (RONDO_CHECK=1 "
             "tells in what they differ)",
             transfer.peer, transfer.status == UCS_OK ? std::to_string(transfer.received) : "more",
             transfer.bytes);
      if (transfer.status != UCS_OK) {
        at(transfer.peer).lost = true;
        break;
      }
      if (!receive) traffic_.count(transfer.byte_class, transfer.peer, transfer.bytes);
      stream.transfers.pop_front();
      ++stream.ended;
      moved = true;
    }
    return moved;
  }

  static ucs_status_t word_came(void* self, const void* header, std::size_t header_bytes, void* data,
                                std::size_t bytes, const ucp_am_recv_param_t* param) noexcept {
    std::int32_t from = -1;
    // A word that says no sender, or does not come at once, is none of ours.
    if (header_bytes != sizeof from || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
    std::memcpy(&from, header, sizeof from);
    const auto* begin = static_cast<const std::byte*>(data);
    try {
      static_cast<UcxNetwork*>(self)->words_in_.push_back({from, {begin, begin + bytes}});
    } catch (const std::bad_alloc&) {
      // As if it had never come: whoever waits for it has a deadline.
    }
    return UCS_OK;
  }

  // Words are heard after UCX's progress, not in it: the hearer may want to answer.
  bool hear_words() {
    bool heard = false;
    while (!words_in_.empty()) {
      const auto [from, word] = std::move(words_in_.front());
      words_in_.pop_front();
      if (hear_ && from >= 0 && static_cast<std::size_t>(from) < peers_.size()) hear_(from, word);
      heard = true;
    }
    return heard;
  }

  // Closes connections, whatever is still under way there.
  template <typename Which>
  void close_all(Which which) {
    std::vector<void*> closing;
    for (Peer& peer : peers_) {
      if (peer.endpoint == nullptr || !which(peer)) continue;
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      void* request = ucx().ucp_ep_close_nbx(std::exchange(peer.endpoint, nullptr), &param);
      peer.lost = true;
      if (UCS_PTR_IS_PTR(request)) closing.push_back(request);
    }
    const Deadline deadline = Deadline::after(closing_time);
    for (void* request : closing) {
      while (ucx().ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.passed()) turn_over();
      ucx().ucp_request_free(request);
    }
  }

  struct IncomingWord {
    int from;
    std::vector<std::byte> text;
  };

  // Messages that came and nobody will ask for: UCX would complain of each.
  void drop_unexpected() {
    ucp_tag_recv_info_t info{};
    while (ucp_tag_message_h message = ucx().ucp_tag_probe_nb(worker_.get(), 0, 0, 1, &info)) {
      ucp_request_param_t param{};
      void* request = ucx().ucp_tag_msg_recv_nbx(worker_.get(), nullptr, 0, message, &param);  // to nowhere
      if (!UCS_PTR_IS_PTR(request)) continue;
      if (ucx().ucp_request_check_status(request) == UCS_INPROGRESS)
        ucx().ucp_request_cancel(worker_.get(), request);
      ucx().ucp_request_free(request);
    }
  }

  Count count_;
  int rank_;
  Traffic traffic_;
  std::vector<Peer> peers_;
  std::vector<Stream> streams_;  // by peer, channel and direction
  std::list<std::size_t> busy_;  // those with transfers under way
  std::list<OutgoingWord> words_out_;
  std::deque<IncomingWord> words_in_;
  std::function<void(int, Bytes)> hear_;
  Context context_;
  Worker worker_;        // gone first: it may still write to what stands above
  int descriptor_ = -1;  // UCX's own
  bool stuck_ = false;   // the worker must not move on
};

}  // namespace

std::unique_ptr<Network> make_ucx_network(int rank, int size, const std::string& devices) {
  return std::make_unique<UcxNetwork>(rank, size, devices);
}

std::string ucx_version() { return fmt::format("{}.{}", UCP_API_MAJOR, UCP_API_MINOR); }

}  // namespace rondo
