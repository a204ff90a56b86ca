#include "perf/nccl_library.h"

#include <dlfcn.h>

#include <cstdint>
#include <exception>
#include <type_traits>

#include "src/error.h"

namespace rondo {
namespace {

constexpr int least_version = 21300;  // the first with ncclGetLastError

// NCCL has counted in two ways: 2804 was 2.8.4, 21300 is 2.13.0.
std::string text_of(int version) {
  const int minor_unit = 100, major_unit = version < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", version / major_unit, version % major_unit / minor_unit,
                     version % minor_unit);
}

std::string path_of(const std::string& name) { return name == "nccl" ? "libnccl.so.2" : name; }

}  // namespace

void NcclLibrary::Close::operator()(void* library) const { ::dlclose(library); }

NcclLibrary::NcclLibrary(const std::string& name, const std::string& needed)
    : path_(path_of(name)), library_(::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (!library_)
    fail(ErrorKind::invalid_argument, "--against {}: it cannot be loaded: {}", name, ::dlerror());
  version_ = read_version();
  take(functions_.get_error_string, "GetErrorString");
  take(functions_.get_last_error, "GetLastError");
  take(functions_.get_unique_id, "GetUniqueId");
  take(functions_.comm_init_rank, "CommInitRank");
  take(functions_.comm_destroy, "CommDestroy");
  take(functions_.comm_abort, "CommAbort");
  take(functions_.comm_get_async_error, "CommGetAsyncError");
  take(functions_.red_op_create_pre_mul_sum, "RedOpCreatePreMulSum");
  take(functions_.red_op_destroy, "RedOpDestroy");
  take(functions_.group_start, "GroupStart");
  take(functions_.group_end, "GroupEnd");
  take(functions_.all_reduce, "AllReduce");
  take(functions_.all_gather, "AllGather");
  take(functions_.reduce_scatter, "ReduceScatter");
  take(functions_.broadcast, "Broadcast");
  take(functions_.reduce, "Reduce");
  take(functions_.send, "Send");
  take(functions_.recv, "Recv");
  need(needed);
  const auto take_newer = [&](auto& function, const char* newer) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(newer));
  };
  take_newer(functions_.all_to_all, "AlltoAll");
  take_newer(functions_.gather, "Gather");
  take_newer(functions_.scatter, "Scatter");
}

void* NcclLibrary::find(const std::string& function) const {
  return ::dlsym(library_.get(), ("nccl" + function).c_str());
}

void* NcclLibrary::need(const std::string& function) const {
  void* const found = find(function);
  if (found == nullptr)
    fail(ErrorKind::invalid_argument, "--against {}: it has no nccl{}{}", path_, function,
         version_.empty() ? "" : fmt::format(", and says that it is NCCL {}", version_));
  return found;
}

std::string NcclLibrary::read_version() const {
  int version = 0;
  const auto get_version = reinterpret_cast<decltype(&::rondoGetVersion)>(need("GetVersion"));
  if (get_version(&version) != rondoSuccess)
    fail(ErrorKind::invalid_argument, "--against {}: it does not tell its version", path_);
  if (version < least_version)
    fail(ErrorKind::invalid_argument, "--against {}: it is NCCL {}: expected {} or newer", path_,
         text_of(version), text_of(least_version));
  return text_of(version);
}

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, Communicator& communicator)
    : functions_(library.functions()) {
  rondoUniqueId id{};
  if (communicator.rank() == 0) callee().check(functions_.get_unique_id(&id));
  communicator.broadcast(std::span(reinterpret_cast<std::uint8_t*>(id.internal), sizeof id.internal), 0);
  callee().check(functions_.comm_init_rank(&comm_, communicator.size(), id, communicator.rank()));
}

// After a failure of one rank the others may never come to the end of what they are in.
NcclCommunicator::~NcclCommunicator() {
  std::uncaught_exceptions() > 0 ? functions_.comm_abort(comm_) : functions_.comm_destroy(comm_);
}

}  // namespace rondo
