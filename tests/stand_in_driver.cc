// A libcuda.so.1 for machines without a GPU: the functions of CUDA's driver that Rondo uses, over the
// stand-in device, as strict about contexts, flags and addresses as the real one, or stricter. Programs that
// find it by LD_LIBRARY_PATH take it for a driver.
#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/error.h"
#include "tests/stand_in_device.h"

// In CUDA's header these are names only.
struct CUctx_st {
  int device;
};

namespace {

using rondo::DeviceAllocation;
using rondo::DeviceMemoryHandle;
using rondo::test::StandInDevice;

constexpr int device_count = 4;

bool initialized = false;
std::atomic<bool> loaded[device_count];  // the kernel's code, by device: lazily, unless it is asked for

// As many devices as there are, or as CUDA_VISIBLE_DEVICES names.
int visible_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return device_count;
  const std::string names = visible;
  const auto commas = static_cast<int>(std::count(names.begin(), names.end(), ','));
  return names.empty() ? 0 : std::min(commas + 1, device_count);
}

CUcontext primary_context(int device) {
  static CUctx_st contexts[device_count] = {{0}, {1}, {2}, {3}};
  return &contexts[device];
}

// Of this thread. The last one is current.
std::vector<CUcontext>& contexts() {
  thread_local std::vector<CUcontext> all;
  return all;
}
CUcontext current() { return contexts().empty() ? nullptr : contexts().back(); }

thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

struct Streams {
  std::mutex mutex;
  std::map<CUstream, CUcontext> context_of;
};
Streams& streams() {
  static auto* const all = new Streams;
  return *all;
}

CUcontext context_of(CUstream stream) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().context_of.find(stream);
  return found == streams().context_of.end() ? nullptr : found->second;
}

std::byte* bytes_at(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

// Of each allocation of this process: the device of the context in which it was made. And which devices have
// access to which others' allocations.
struct Owners {
  std::mutex mutex;
  std::map<const std::byte*, int> device_of;
  std::set<std::pair<int, int>> access;  // from, to
};
Owners& owners() {
  static auto* const all = new Owners;
  return *all;
}
int owner_of(const DeviceAllocation& allocation) {
  const std::lock_guard lock(owners().mutex);
  const auto found = owners().device_of.find(allocation.base);
  return found == owners().device_of.end() ? 0 : found->second;
}

class SeveralDevices : public StandInDevice {
  bool may_touch(rondo::DeviceContext context, const std::byte* base) const override {
    const int from = static_cast<CUcontext>(context)->device;
    const std::lock_guard lock(owners().mutex);
    const auto owner = owners().device_of.find(base);
    return owner == owners().device_of.end() || owner->second == from ||
           owners().access.count({from, owner->second}) > 0;
  }
};

// Never destroyed, like a driver. Made after the process was forked.
StandInDevice& stand_in() {
  static auto* const device = new SeveralDevices;
  return *device;
}

template <typename Body>
CUresult driver_call(Body body) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  try {
    return body();
  } catch (const rondo::Error&) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// What needs a context finds the thread's; a stream's work needs the stream's own.
template <typename Body>
CUresult call_in_context(Body body) {
  return driver_call([&] { return current() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : body(); });
}
// The stand-in's default stream is then the current context's.
class InContext {
 public:
  InContext() { stand_in().enter(current()); }
  ~InContext() { stand_in().leave(); }
};
template <typename Body>
CUresult call_on(CUstream stream, Body body) {
  return call_in_context([&] {
    if (stream != nullptr && context_of(stream) != current()) return CUDA_ERROR_INVALID_CONTEXT;
    const InContext default_stream;
    body();
    return CUDA_SUCCESS;
  });
}

// True if the attribute is known.
bool set_attribute(CUpointer_attribute attribute, const std::optional<DeviceAllocation>& allocation,
                   void* value) {
  const auto set = [&](auto number) {
    std::memcpy(value, &number, sizeof number);
    return true;
  };
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return set(allocation ? unsigned{CU_MEMORYTYPE_DEVICE} : 0U);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return set(0U);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return set(allocation ? owner_of(*allocation) : 0);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return set(allocation ? primary_context(owner_of(*allocation)) : nullptr);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return set(allocation ? reinterpret_cast<CUdeviceptr>(allocation->base) : CUdeviceptr{0});
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return set(allocation ? allocation->bytes : std::size_t{0});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return set(allocation ? static_cast<unsigned long long>(allocation->number) : 0ULL);
  }
  return false;
}

}  // namespace

extern "C" {
CUresult cuInit(unsigned) {
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "the stand-in's driver refuses it";
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  return driver_call([&] {
    *context = current();
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call([&] {
    if (!contexts().empty()) contexts().pop_back();
    contexts().push_back(context);
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxPushCurrent(CUcontext context) {
  return driver_call([&] {
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    contexts().push_back(context);
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxPopCurrent(CUcontext* context) {
  return call_in_context([&] {
    *context = current();
    contexts().pop_back();
    return CUDA_SUCCESS;
  });
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return driver_call([&] {
    if (device < 0 || device >= visible_devices()) return CUDA_ERROR_INVALID_DEVICE;
    *context = primary_context(device);
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr pointer) {
  return driver_call([&] {
    const auto allocation = stand_in().allocation_of(bytes_at(pointer));
    for (unsigned i = 0; i < count; ++i)
      if (!set_attribute(attributes[i], allocation, values[i])) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  return call_in_context([&] {
    *memory = reinterpret_cast<CUdeviceptr>(stand_in().allocate(bytes));
    const std::lock_guard lock(owners().mutex);
    owners().device_of[bytes_at(*memory)] = current()->device;
    return CUDA_SUCCESS;
  });
}
CUresult cuMemFree(CUdeviceptr memory) {
  return call_in_context([&] {
    {
      const std::lock_guard lock(owners().mutex);
      owners().device_of.erase(bytes_at(memory));
    }
    stand_in().free(bytes_at(memory));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return call_in_context([&] {
    if (flags != (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP))
      return CUDA_ERROR_INVALID_VALUE;
    stand_in().pin(nullptr, {static_cast<std::byte*>(memory), bytes});
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostUnregister(void* memory) {
  return call_in_context([&] {
    stand_in().unpin(nullptr, static_cast<std::byte*>(memory));
    return CUDA_SUCCESS;
  });
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned flags) {
  return call_in_context([&] {
    *address =
        reinterpret_cast<CUdeviceptr>(stand_in().address_of_pinned(nullptr, static_cast<std::byte*>(memory)));
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return call_on(stream, [&] { stand_in().copy(stream, bytes_at(to), bytes_at(from), bytes); });
}

CUresult cuMemsetD8Async(CUdeviceptr memory, unsigned char value, std::size_t bytes, CUstream stream) {
  return call_on(stream, [&] {
    if (value != 0) rondo::fail(rondo::ErrorKind::device, "stand-in: clears only");
    stand_in().clear(stream, bytes_at(memory), bytes);
  });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr base) {
  return call_in_context([&] {
    const auto allocation = stand_in().allocation_of(bytes_at(base));
    if (!allocation || allocation->base != bytes_at(base)) return CUDA_ERROR_INVALID_VALUE;
    const auto made = stand_in().handle_of(nullptr, *allocation);
    std::memcpy(handle, &*made, sizeof *handle);
    return CUDA_SUCCESS;
  });
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* base, CUipcMemHandle handle, unsigned flags) {
  return call_in_context([&] {
    if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (std::getenv("RONDO_TEST_OPEN_ONCE") != nullptr) stand_in().open_each_address_once();
    DeviceMemoryHandle theirs;
    std::memcpy(&theirs, &handle, sizeof theirs);
    *base = reinterpret_cast<CUdeviceptr>(stand_in().open(nullptr, theirs));
    return *base == 0 ? CUDA_ERROR_ALREADY_MAPPED : CUDA_SUCCESS;
  });
}
CUresult cuIpcCloseMemHandle(CUdeviceptr base) {
  return call_in_context([&] {
    stand_in().close(nullptr, bytes_at(base));
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return call_in_context([&] {
    if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *stream = static_cast<CUstream>(stand_in().make_stream());
    const std::lock_guard lock(streams().mutex);
    streams().context_of[*stream] = current();
    return CUDA_SUCCESS;
  });
}
CUresult cuStreamDestroy(CUstream stream) {
  return driver_call([&] {
    {
      const std::lock_guard lock(streams().mutex);
      streams().context_of.erase(stream);
    }
    stand_in().destroy_stream(stream);
    return CUDA_SUCCESS;
  });
}
CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return driver_call([&] {
    *context = context_of(stream);
    return *context == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return call_on(stream, [&] {
    *status =
        stand_in().is_recorded(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  });
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return driver_call([&] {
    *mode = std::exchange(capture_mode, *mode);
    return CUDA_SUCCESS;
  });
}
// As if another thread recorded a stream all the time.
CUresult cuStreamQuery(CUstream stream) {
  return call_in_context([&] {
    if (context_of(stream) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (context_of(stream) != current()) return CUDA_ERROR_INVALID_CONTEXT;
    if (capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stand_in().check(stream);
    return CUDA_SUCCESS;
  });
}
CUresult cuStreamSynchronize(CUstream stream) {
  return call_on(stream, [&] { stand_in().synchronise(stream); });
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  return call_on(stream, [&] {
    // The first device can flush what others stored, and is to.
    const unsigned flush = current()->device == 0 ? unsigned{CU_STREAM_WAIT_VALUE_FLUSH} : 0U;
    if (flags != (CU_STREAM_WAIT_VALUE_GEQ | flush))
      rondo::fail(rondo::ErrorKind::device, "stand-in: not >=, or not the device's flush");
    stand_in().wait_for_word_at(stream, bytes_at(address), value);
  });
}
CUresult cuCtxGetDevice(CUdevice* device) {
  return call_in_context([&] {
    *device = current()->device;
    return CUDA_SUCCESS;
  });
}
CUresult cuDeviceGetCount(int* count) {
  return driver_call([&] {
    *count = visible_devices();
    return CUDA_SUCCESS;
  });
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return driver_call([&] {
    *uuid = {};
    uuid->bytes[0] = static_cast<char>(device);
    return CUDA_SUCCESS;
  });
}
// RONDO_TEST_NO_PEER_ACCESS: as GPUs that no link connects.
CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return driver_call([&] {
    *can = device != peer && std::getenv("RONDO_TEST_NO_PEER_ACCESS") == nullptr ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  return call_in_context([&] {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (peer == nullptr || peer == current() || std::getenv("RONDO_TEST_NO_PEER_ACCESS") != nullptr)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const std::lock_guard lock(owners().mutex);
    return owners().access.emplace(current()->device, peer->device).second
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  });
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return driver_call([&] {
    if (attribute != CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES) return CUDA_ERROR_INVALID_VALUE;
    *value = device == 0 ? 1 : 0;
    return CUDA_SUCCESS;
  });
}
// What is loaded is the real thing, and what is started the same on the host.
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  return driver_call([&] {
    constexpr std::uint32_t fat_binary = 0xBA55ED50;
    if (std::memcmp(code, &fat_binary, sizeof fat_binary) != 0) return CUDA_ERROR_INVALID_IMAGE;
    *library = reinterpret_cast<CUlibrary>(1);
    return CUDA_SUCCESS;
  });
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  return driver_call([&] {
    if (std::strcmp(name, "rondo_job") != 0) return CUDA_ERROR_NOT_FOUND;
    *kernel = reinterpret_cast<CUkernel>(2);
    return CUDA_SUCCESS;
  });
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return call_in_context([&] {
    if (kernel != reinterpret_cast<CUkernel>(2)) return CUDA_ERROR_INVALID_HANDLE;
    *function = reinterpret_cast<CUfunction>(3 + current()->device);
    return CUDA_SUCCESS;
  });
}
// RONDO_TEST_NO_BINARY: as a GPU for which the image has no code.
CUresult cuFuncLoad(CUfunction function) {
  return call_in_context([&] {
    if (function != reinterpret_cast<CUfunction>(3 + current()->device)) return CUDA_ERROR_INVALID_HANDLE;
    if (std::getenv("RONDO_TEST_NO_BINARY") != nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    loaded[current()->device] = true;
    return CUDA_SUCCESS;
  });
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction) {
  return call_in_context([&] {
    *value = 1024;
    return loaded[current()->device] ? CUDA_SUCCESS : CUDA_ERROR_FUNCTION_NOT_LOADED;
  });
}
CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                        unsigned, unsigned, CUstream stream, void** arguments, void**) {
  return call_on(stream, [&] {
    if (function != reinterpret_cast<CUfunction>(3 + current()->device) || threads != 512 ||
        !loaded[current()->device])
      rondo::fail(rondo::ErrorKind::device,
                  "stand-in: not the context's kernel, not its threads, or not loaded");
    const rondo::device::Job* job = nullptr;
    std::memcpy(&job, arguments[0], sizeof job);
    stand_in().do_job(stream, job, static_cast<int>(blocks));
  });
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return call_on(stream, [&] { stand_in().call_host(stream, [=] { function(argument); }); });
}
}
