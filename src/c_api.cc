// The C interface: looks up handles, checks arguments, makes calls, and turns errors into result codes, here
// only.
#include <cstring>
#include <map>
#include <new>
#include <thread>

#include "include/rondo/rondo.h"
#include "src/calls.h"
#include "src/comm_id.h"
#include "src/communicator.h"
#include "src/device.h"
#include "src/engine.h"
#include "src/gather_bytes.h"
#include "src/group.h"
#include "src/handles.h"
#include "src/stream.h"
#include "src/window.h"

namespace rondo {
namespace {

struct CommObject {
  explicit CommObject(std::shared_ptr<Communicator> made) : communicator(std::move(made)) {}

  std::shared_ptr<Communicator> communicator;
  std::mutex mutex;
  struct CustomOperator {
    DataType type;
    std::uint64_t scalar;
  };
  std::map<int, CustomOperator> operators;  // by number, from rondoNumOps on
  int next_operator = rondoNumOps;
};

// Memory that was registered with a communicator.
struct Registration {
  rondoComm_t comm;
  void* pages = nullptr;  // that were exchanged; null: none
};

// Never destroyed, so that handles stay valid while a program's static objects are.
Handles<rondoComm_t, CommObject>& comms() {
  static auto* const handles = new Handles<rondoComm_t, CommObject>;
  return *handles;
}
// Odd numbers beyond CUDA's names for its default streams. Its other streams are aligned addresses, which may
// be small ones: the heap of a program at a fixed address begins anywhere.
constexpr std::uintptr_t first_stream_handle = 17, stream_handle_step = 2;
Handles<rondoStream_t, Stream>& streams() {
  static auto* const handles = new Handles<rondoStream_t, Stream>(first_stream_handle, stream_handle_step);
  return *handles;
}
Handles<rondoWindow_t, Registration>& registrations() {
  static auto* const handles = new Handles<rondoWindow_t, Registration>;
  return *handles;
}

std::string& last_error() {
  thread_local std::string text;
  return text;
}

rondoResult_t result_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::system:
      return rondoSystemError;
    case ErrorKind::internal:
      return rondoInternalError;
    case ErrorKind::invalid_argument:
      return rondoInvalidArgument;
    case ErrorKind::invalid_usage:
      return rondoInvalidUsage;
    case ErrorKind::remote:
      return rondoRemoteError;
    case ErrorKind::timeout:
      return rondoTimeout;
    case ErrorKind::aborted:
      return rondoAborted;
    case ErrorKind::device:
      return rondoUnhandledCudaError;
  }
  return rondoInternalError;
}

// No exception passes the C edge.
template <typename Body>
rondoResult_t at_the_edge(const char* function, Body body) noexcept {
  try {
    body();
    return rondoSuccess;
  } catch (const Error& error) {
    last_error() = fmt::format("{}: {}", function, error.what());
    return result_of(error.kind());
  } catch (const std::bad_alloc&) {
    last_error() = fmt::format("{}: out of memory", function);
    return rondoSystemError;
  } catch (const std::exception& error) {
    last_error() = fmt::format("{}: {}", function, error.what());
    return rondoInternalError;
  }
}

void need(const char* argument, const void* pointer) {
  if (pointer == nullptr) fail(ErrorKind::invalid_argument, "{} is null", argument);
}

// Good until this thread looks for another handle.
CommObject& object_of(rondoComm_t comm) {
  const auto& object = comms().find(comm);
  if (!object)
    fail(ErrorKind::invalid_argument, "comm {}: expected a communicator that lives (not null, not destroyed)",
         static_cast<const void*>(comm));
  object->communicator->need_own_process();
  return *object;
}

std::shared_ptr<Communicator> communicator_of(rondoComm_t comm) { return object_of(comm).communicator; }

std::shared_ptr<Stream> stream_of(rondoStream_t stream) {
  auto object = streams().find(stream);
  if (!object)
    fail(ErrorKind::invalid_argument, "stream {}: expected one made by rondoStreamCreate and not destroyed",
         static_cast<const void*>(stream));
  return object;
}

// Whether the handle is none of ours, by its number alone: ours that are no more are none of CUDA's.
bool is_devices(rondoStream_t stream) {
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  return number < first_stream_handle || number % 2 == 0;
}

CallStream call_stream_of(rondoStream_t stream) {
  if (stream == nullptr) return {};
  if (is_devices(stream) && process_device() != nullptr) return {nullptr, stream};
  return {stream_of(stream), nullptr};
}

DataType type_of(rondoDataType_t type) {
  if (type < 0 || type >= rondoNumTypes)
    fail(ErrorKind::invalid_argument, "type {}: expected 0 to {}", static_cast<int>(type), rondoNumTypes - 1);
  return static_cast<DataType>(type);
}

Operator operator_of(CommObject& object, rondoRedOp_t op, DataType type) {
  if (op >= 0 && op < rondoNumOps) return {static_cast<ReduceOp>(op), 0};
  const std::lock_guard lock(object.mutex);
  const auto found = object.operators.find(op);
  if (found == object.operators.end())
    fail(ErrorKind::invalid_argument, "op {}: expected 0 to {}, or one made for this communicator",
         static_cast<int>(op), rondoNumOps - 1);
  if (found->second.type != type)
    fail(ErrorKind::invalid_argument, "op {} was made for {}, and is used with {}", static_cast<int>(op),
         name_of(found->second.type), name_of(type));
  return {ReduceOp::premul_sum, found->second.scalar};
}

std::chrono::milliseconds timeout_from(std::int64_t milliseconds) {
  constexpr std::int64_t most = 1'000'000'000;  // as RONDO_TIMEOUT
  if (milliseconds < 0 || milliseconds > most)
    fail(ErrorKind::invalid_argument, "timeout_ms {}: expected 0 (never) to {}", milliseconds, most);
  return std::chrono::milliseconds(milliseconds);
}

CommunicatorOptions options_from(const rondoConfig_t* config, CommunicatorOptions options) {
  if (config == nullptr) return options;
  if (config->size != sizeof(rondoConfig_t))
    fail(ErrorKind::invalid_argument, "config size {}: expected {} (use RONDO_CONFIG_INITIALIZER)",
         config->size, sizeof(rondoConfig_t));
  if (config->timeout_ms != -1) options.settings.timeout = timeout_from(config->timeout_ms);
  if (config->strict < -1 || config->strict > 1)
    fail(ErrorKind::invalid_argument, "config strict {}: expected 0, 1 or -1", config->strict);
  if (config->strict >= 0) options.settings.strict = config->strict == 1;
  if (config->algorithm != nullptr)
    options.settings.algorithm = parse_algorithm("config algorithm", config->algorithm);
  if (config->name != nullptr) options.name = config->name;
  return options;
}

rondoComm_t add(std::shared_ptr<Communicator> communicator) {
  return comms().add(std::make_shared<CommObject>(std::move(communicator)));
}

UniqueId id_from(const rondoUniqueId& from) {
  UniqueId id;
  static_assert(sizeof from.internal == sizeof id.bytes);
  std::memcpy(id.bytes.data(), from.internal, sizeof from.internal);
  return id;
}

rondoComm_t init_rank(int nranks, const rondoUniqueId& id, int rank, const rondoConfig_t* config) {
  if (nranks < 1) fail(ErrorKind::invalid_argument, "nranks {}: expected at least 1", nranks);
  return add(Communicator::create(id_from(id).meeting_place(), rank, nranks, options_from(config, {})));
}

// Looks up what every call needs, makes the call by `make(seat, object, type)` and submits it.
template <typename Make>
rondoResult_t collective(const char* function, rondoComm_t comm, rondoStream_t stream, rondoDataType_t type,
                         Make make) noexcept {
  return at_the_edge(function, [&] {
    CommObject& object = object_of(comm);
    const Seat seat{object.communicator->rank(), object.communicator->size()};
    submit(object.communicator, make(seat, object, type_of(type)), call_stream_of(stream));
  });
}

std::span<const std::size_t> counts_of(const std::size_t* counts, Seat seat) {
  need("counts", counts);
  return {counts, static_cast<std::size_t>(seat.size)};
}

rondoWindow_t register_memory(rondoComm_t comm, void* buff, std::size_t size, int flags) {
  object_of(comm);
  need("buff", buff);
  if (size == 0) fail(ErrorKind::invalid_argument, "size 0: expected at least 1 byte");
  if (flags != RONDO_WIN_DEFAULT && flags != RONDO_WIN_EXCHANGE_PAGES)
    fail(ErrorKind::invalid_argument,
         "winFlags {:#x}: expected RONDO_WIN_DEFAULT (0) or RONDO_WIN_EXCHANGE_PAGES ({:#x})", flags,
         RONDO_WIN_EXCHANGE_PAGES);
  auto registration = std::make_shared<Registration>(Registration{comm});
  // What peers can map already needs nothing.
  if (flags == RONDO_WIN_EXCHANGE_PAGES && !find_window(buff, size))
    registration->pages = exchange_pages(buff, size);
  return registrations().add(std::move(registration));
}

// Also when the communicator was aborted or destroyed before.
void deregister_memory(rondoComm_t comm, const char* argument, rondoWindow_t win) {
  const std::shared_ptr<Registration> registration = registrations().find(win);
  if (!registration || registration->comm != comm)
    fail(ErrorKind::invalid_argument, "{} {}: expected one that was registered with this communicator",
         argument, static_cast<const void*>(win));
  if (registration->pages != nullptr) exchange_pages_back(registration->pages);
  registrations().take(win);
}

}  // namespace
}  // namespace rondo

using namespace rondo;

rondoResult_t rondoGetVersion(int* version) {
  return at_the_edge("rondoGetVersion", [&] {
    need("version", version);
    *version = RONDO_VERSION_CODE;
  });
}

const char* rondoGetErrorString(rondoResult_t result) {
  switch (result) {
    case rondoSuccess:
      return "no error";
    case rondoUnhandledCudaError:
      return "a CUDA call failed";
    case rondoSystemError:
      return "a call to the operating system failed";
    case rondoInternalError:
      return "a fault inside Rondo";
    case rondoInvalidArgument:
      return "an argument is invalid";
    case rondoInvalidUsage:
      return "calls do not fit together";
    case rondoRemoteError:
      return "a peer has died";
    case rondoInProgress:
      return "not done yet";
    case rondoTimeout:
      return "a deadline passed";
    case rondoAborted:
      return "the communicator was aborted or has failed";
    case rondoNumResults:
      break;
  }
  return "unknown result code";
}

const char* rondoGetLastError(rondoComm_t) { return last_error().c_str(); }

rondoResult_t rondoGetUniqueId(rondoUniqueId* id) {
  return at_the_edge("rondoGetUniqueId", [&] {
    need("id", id);
    std::memcpy(id->internal, make_unique_id().bytes.data(), sizeof id->internal);
  });
}

rondoResult_t rondoCheckUniqueId(rondoUniqueId id) {
  return at_the_edge("rondoCheckUniqueId", [&] { id_from(id).meeting_place(); });
}

rondoResult_t rondoCommInitRank(rondoComm_t* comm, int nranks, rondoUniqueId id, int rank) {
  return rondoCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

rondoResult_t rondoCommInitRankConfig(rondoComm_t* comm, int nranks, rondoUniqueId id, int rank,
                                      const rondoConfig_t* config) {
  return at_the_edge("rondoCommInitRank", [&] {
    need("comm", comm);
    *comm = init_rank(nranks, id, rank, config);
  });
}

rondoResult_t rondoCommInitAll(rondoComm_t* new_comms, int ndev, const int*) {
  return at_the_edge("rondoCommInitAll", [&] {
    need("comms", new_comms);
    if (ndev < 1) fail(ErrorKind::invalid_argument, "ndev {}: expected at least 1", ndev);
    rondoUniqueId id;
    std::memcpy(id.internal, UniqueId::make().bytes.data(), sizeof id.internal);
    std::vector<rondoComm_t> made(static_cast<std::size_t>(ndev));
    std::vector<std::exception_ptr> problems(made.size());
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < ndev; ++rank)
        threads.emplace_back([&, rank] {
          const auto index = static_cast<std::size_t>(rank);
          try {
            made[index] = init_rank(ndev, id, rank, nullptr);
          } catch (...) {
            problems[index] = std::current_exception();
          }
        });
    }
    for (const auto& problem : problems)
      if (problem) {
        for (rondoComm_t comm : made) comms().take(comm);
        std::rethrow_exception(problem);
      }
    std::copy(made.begin(), made.end(), new_comms);
  });
}

rondoResult_t rondoCommInitEnv(rondoComm_t* comm, const rondoConfig_t* config) {
  return at_the_edge("rondoCommInitEnv", [&] {
    need("comm", comm);
    *comm = add(Communicator::create(LaunchEnvironment::read(), options_from(config, {})));
  });
}

rondoResult_t rondoCommSplit(rondoComm_t comm, int color, int key, rondoComm_t* newcomm,
                             const rondoConfig_t* config) {
  return at_the_edge("rondoCommSplit", [&] {
    need("newcomm", newcomm);
    const auto parent = communicator_of(comm);
    auto child = parent->split(color, key, options_from(config, parent->options()));
    *newcomm = child ? add(std::move(child)) : nullptr;
  });
}

rondoResult_t rondoCommFinalize(rondoComm_t comm) {
  return at_the_edge("rondoCommFinalize", [&] { wait_until_idle(communicator_of(comm)); });
}

rondoResult_t rondoCommDestroy(rondoComm_t comm) {
  return at_the_edge("rondoCommDestroy", [&] {
    const auto communicator = communicator_of(comm);
    comms().take(comm);
    if (!communicator->idle()) communicator->abort();
    communicator->leave();
  });
}

rondoResult_t rondoCommAbort(rondoComm_t comm) {
  return at_the_edge("rondoCommAbort", [&] {
    const auto communicator = communicator_of(comm);
    comms().take(comm);
    communicator->abort();
    communicator->leave();
  });
}

rondoResult_t rondoCommGetAsyncError(rondoComm_t comm, rondoResult_t* async_error) {
  return at_the_edge("rondoCommGetAsyncError", [&] {
    need("async_error", async_error);
    const auto communicator = communicator_of(comm);
    auto error = communicator->error();
    if (!error) error = communicator->take_refusal();
    *async_error = error ? result_of(error->kind()) : rondoSuccess;
    if (error) last_error() = error->what();
  });
}

rondoResult_t rondoCommCount(const rondoComm_t comm, int* count) {
  return at_the_edge("rondoCommCount", [&] {
    need("count", count);
    *count = communicator_of(comm)->size();
  });
}

rondoResult_t rondoCommUserRank(const rondoComm_t comm, int* rank) {
  return at_the_edge("rondoCommUserRank", [&] {
    need("rank", rank);
    *rank = communicator_of(comm)->rank();
  });
}

rondoResult_t rondoCommSetTimeout(rondoComm_t comm, int64_t timeout_ms) {
  return at_the_edge("rondoCommSetTimeout",
                     [&] { communicator_of(comm)->set_timeout(timeout_from(timeout_ms)); });
}

rondoResult_t rondoRedOpCreatePreMulSum(rondoRedOp_t* op, void* scalar, rondoDataType_t type,
                                        rondoScalarResidence_t, rondoComm_t comm) {
  return at_the_edge("rondoRedOpCreatePreMulSum", [&] {
    need("op", op);
    need("scalar", scalar);
    if (const Device* const found = process_device(); found != nullptr && found->allocation_of(scalar))
      fail(ErrorKind::invalid_argument, "scalar {}: expected host memory, and it is the device's", scalar);
    CommObject& object = object_of(comm);
    CommObject::CustomOperator custom{type_of(type), 0};
    std::memcpy(&custom.scalar, scalar, size_of(custom.type));
    const std::lock_guard lock(object.mutex);
    object.operators[object.next_operator] = custom;
    *op = static_cast<rondoRedOp_t>(object.next_operator++);
  });
}

rondoResult_t rondoRedOpDestroy(rondoRedOp_t op, rondoComm_t comm) {
  return at_the_edge("rondoRedOpDestroy", [&] {
    CommObject& object = object_of(comm);
    const std::lock_guard lock(object.mutex);
    if (object.operators.erase(op) == 0)
      fail(ErrorKind::invalid_argument, "op {}: expected one made by rondoRedOpCreatePreMulSum",
           static_cast<int>(op));
  });
}

rondoResult_t rondoMemAlloc(void** ptr, size_t size) {
  return at_the_edge("rondoMemAlloc", [&] {
    need("ptr", ptr);
    *ptr = allocate_window(size);
  });
}

rondoResult_t rondoMemFree(void* ptr) {
  return at_the_edge("rondoMemFree", [&] {
    if (ptr != nullptr) free_window(ptr);
  });
}

rondoResult_t rondoCommWindowRegister(rondoComm_t comm, void* buff, size_t size, rondoWindow_t* win,
                                      int winFlags) {
  return at_the_edge("rondoCommWindowRegister", [&] {
    need("win", win);
    *win = register_memory(comm, buff, size, winFlags);
  });
}

rondoResult_t rondoCommWindowDeregister(rondoComm_t comm, rondoWindow_t win) {
  return at_the_edge("rondoCommWindowDeregister", [&] { deregister_memory(comm, "win", win); });
}

rondoResult_t rondoCommRegister(const rondoComm_t comm, void* buff, size_t size, void** handle) {
  return at_the_edge("rondoCommRegister", [&] {
    need("handle", handle);
    *handle = register_memory(comm, buff, size, RONDO_WIN_DEFAULT);
  });
}

rondoResult_t rondoCommDeregister(const rondoComm_t comm, void* handle) {
  return at_the_edge("rondoCommDeregister",
                     [&] { deregister_memory(comm, "handle", static_cast<rondoWindow_t>(handle)); });
}

rondoResult_t rondoAllReduce(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                             rondoRedOp_t op, rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoAllReduce", comm, stream, type, [&](Seat, CommObject& object, DataType element) {
    return PlainCall{
        CallKind::all_reduce, element, operator_of(object, op, element), sendbuff, recvbuff, count};
  });
}

rondoResult_t rondoAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, rondoDataType_t type,
                             rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoAllGather", comm, stream, type, [&](Seat, CommObject&, DataType element) {
    return PlainCall{CallKind::all_gather, element, {}, sendbuff, recvbuff, sendcount};
  });
}

rondoResult_t rondoReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, rondoDataType_t type,
                                 rondoRedOp_t op, rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoReduceScatter", comm, stream, type,
                    [&](Seat, CommObject& object, DataType element) {
                      return PlainCall{CallKind::reduce_scatter,
                                       element,
                                       operator_of(object, op, element),
                                       sendbuff,
                                       recvbuff,
                                       recvcount};
                    });
}

rondoResult_t rondoBroadcast(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                             int root, rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoBroadcast", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return broadcast_call(seat, sendbuff, recvbuff, count, element, root);
  });
}

rondoResult_t rondoReduce(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                          rondoRedOp_t op, int root, rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoReduce", comm, stream, type, [&](Seat seat, CommObject& object, DataType element) {
    return reduce_call(seat, sendbuff, recvbuff, count, element, operator_of(object, op, element), root);
  });
}

rondoResult_t rondoAlltoAll(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type,
                            rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoAlltoAll", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return all_to_all_call(seat, sendbuff, recvbuff, count, element);
  });
}

rondoResult_t rondoGather(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type, int root,
                          rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoGather", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return gather_call(seat, sendbuff, recvbuff, count, element, root);
  });
}

rondoResult_t rondoScatter(const void* sendbuff, void* recvbuff, size_t count, rondoDataType_t type, int root,
                           rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoScatter", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return scatter_call(seat, sendbuff, recvbuff, count, element, root);
  });
}

rondoResult_t rondoSend(const void* sendbuff, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                        rondoStream_t stream) {
  return collective("rondoSend", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return send_call(seat, sendbuff, count, element, peer);
  });
}

rondoResult_t rondoRecv(void* recvbuff, size_t count, rondoDataType_t type, int peer, rondoComm_t comm,
                        rondoStream_t stream) {
  return collective("rondoRecv", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return receive_call(seat, recvbuff, count, element, peer);
  });
}

rondoResult_t rondoBarrier(rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoBarrier", comm, stream, rondoUint8,
                    [&](Seat, CommObject&, DataType) { return PlainCall{}; });
}

rondoResult_t rondoAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts,
                              rondoDataType_t type, rondoComm_t comm, rondoStream_t stream) {
  return collective("rondoAllGatherV", comm, stream, type, [&](Seat seat, CommObject&, DataType element) {
    return all_gather_v_call(seat, sendbuff, recvbuff, counts_of(counts, seat), element);
  });
}

rondoResult_t rondoReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                  rondoDataType_t type, rondoRedOp_t op, rondoComm_t comm,
                                  rondoStream_t stream) {
  return collective("rondoReduceScatterV", comm, stream, type,
                    [&](Seat seat, CommObject& object, DataType element) {
                      return reduce_scatter_v_call(seat, sendbuff, recvbuff, counts_of(counts, seat), element,
                                                   operator_of(object, op, element));
                    });
}

rondoResult_t rondoGroupStart(void) {
  return at_the_edge("rondoGroupStart", [] { group_start(); });
}

rondoResult_t rondoGroupEnd(void) {
  return at_the_edge("rondoGroupEnd", [] { group_end(); });
}

rondoResult_t rondoStreamCreate(rondoStream_t* stream) {
  return at_the_edge("rondoStreamCreate", [&] {
    need("stream", stream);
    *stream = streams().add(std::make_shared<Stream>());
  });
}

rondoResult_t rondoStreamSynchronize(rondoStream_t stream) {
  return at_the_edge("rondoStreamSynchronize", [&] {
    need("stream", stream);
    stream_of(stream)->synchronize();
  });
}

rondoResult_t rondoStreamQuery(rondoStream_t stream) {
  bool done = false;
  const rondoResult_t result = at_the_edge("rondoStreamQuery", [&] {
    need("stream", stream);
    done = stream_of(stream)->query();
  });
  return result == rondoSuccess && !done ? rondoInProgress : result;
}

rondoResult_t rondoStreamDestroy(rondoStream_t stream) {
  return at_the_edge("rondoStreamDestroy", [&] {
    need("stream", stream);
    const auto object = stream_of(stream);
    streams().take(stream);
    object->synchronize();
  });
}

rondoResult_t rondoLedgerScopeBegin(rondoComm_t comm, const char* name) {
  return at_the_edge("rondoLedgerScopeBegin", [&] {
    need("name", name);
    if (is_report(name))
      fail(ErrorKind::invalid_argument,
           "name \"{}\": expected one that does not end in \"{}\", which is Rondo's own", name, report_scope);
    communicator_of(comm)->ledger().begin_scope(name);
  });
}

rondoResult_t rondoLedgerScopeEnd(rondoComm_t comm) {
  return at_the_edge("rondoLedgerScopeEnd", [&] { communicator_of(comm)->ledger().end_scope(); });
}

rondoResult_t rondoLedgerMatrix(rondoComm_t comm, rondoLedgerClass_t byte_class, uint64_t* matrix) {
  return at_the_edge("rondoLedgerMatrix", [&] {
    need("matrix", matrix);
    if (byte_class < 0 || byte_class >= byte_class_count)
      fail(ErrorKind::invalid_argument, "byte_class {}: expected 0 to {}", static_cast<int>(byte_class),
           byte_class_count - 1);
    const auto merged = ledger_matrix(*communicator_of(comm), static_cast<ByteClass>(byte_class));
    std::copy(merged.begin(), merged.end(), matrix);
  });
}

rondoResult_t rondoLedgerJson(rondoComm_t comm, char* text, size_t* size) {
  return at_the_edge("rondoLedgerJson", [&] {
    need("size", size);
    const std::string json = communicator_of(comm)->ledger().json();
    const std::size_t room = std::exchange(*size, json.size() + 1);
    if (text == nullptr) return;
    if (room < json.size() + 1)
      fail(ErrorKind::invalid_argument, "size {}: expected at least {}", room, json.size() + 1);
    std::memcpy(text, json.c_str(), json.size() + 1);
  });
}

rondoResult_t rondoLedgerReset(rondoComm_t comm) {
  return at_the_edge("rondoLedgerReset", [&] { communicator_of(comm)->ledger().reset(); });
}
