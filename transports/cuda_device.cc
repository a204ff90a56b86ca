// CUDA's driver as a Device. Streams and memory are those of whatever CUDA the program uses: runtime and
// driver share them.
#include <cstring>
#include <map>
#include <mutex>

#include "src/device.h"
#include "src/error.h"
#include "transports/cuda_kernels.h"
#include "transports/cuda_library.h"

namespace rondo {
namespace {

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
std::byte* pointer_to(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

class CudaDevice : public Device {
 public:
  explicit CudaDevice(const CudaLibrary& library) : cuda_(library), kernels_(cuda_) {}

  // One look for what calls ask at every pointer. A program that has not initialized CUDA has no such memory.
  std::optional<DeviceAllocation> allocation_of(const void* pointer) const override {
    unsigned type = 0, managed = 0;
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    unsigned long long number = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
    void* values[] = {&type, &managed, &base, &bytes, &number};
    if (cuda_.pointer_get_attributes(std::size(attributes), attributes, values, address_of(pointer)) !=
        CUDA_SUCCESS)
      return std::nullopt;
    if (type != CU_MEMORYTYPE_DEVICE && managed == 0) return std::nullopt;
    return DeviceAllocation{pointer_to(base), bytes, number};
  }

  int count() const override {
    int count = 0;
    need(cuda_.init(0), "cuInit");
    need(cuda_.device_get_count(&count), "cuDeviceGetCount");
    return count;
  }
  void choose(int which) override {
    need(cuda_.init(0), "cuInit");
    enter_primary_context(which);
  }
  DeviceIdentity identity() const override {
    CUdevice device = 0;
    CUuuid uuid;
    need(cuda_.ctx_get_device(&device), "cuCtxGetDevice");
    need(cuda_.device_get_uuid(&uuid, device), "cuDeviceGetUuid");
    DeviceIdentity bytes;
    static_assert(sizeof uuid == sizeof bytes);
    std::memcpy(&bytes, &uuid, sizeof bytes);
    return bytes;
  }

  std::byte* allocate(std::size_t bytes) override {
    need_context();
    CUdeviceptr memory = 0;
    need(cuda_.mem_alloc(&memory, bytes), "cuMemAlloc");
    return pointer_to(memory);
  }
  void free(std::byte* memory) override { need(cuda_.mem_free(address_of(memory)), "cuMemFree"); }

  std::optional<DeviceMemoryHandle> handle_of(DeviceStream stream,
                                              const DeviceAllocation& allocation) override {
    const InContext context(*this, stream);
    CUipcMemHandle handle;
    // Memory of pools and of reserved ranges has no such handle.
    if (cuda_.ipc_get_mem_handle(&handle, address_of(allocation.base)) != CUDA_SUCCESS) return std::nullopt;
    DeviceMemoryHandle bytes;
    static_assert(sizeof handle == sizeof bytes);
    std::memcpy(&bytes, &handle, sizeof bytes);
    return bytes;
  }
  std::byte* open(DeviceStream stream, const DeviceMemoryHandle& handle) override {
    const InContext context(*this, stream);
    CUipcMemHandle theirs;
    std::memcpy(&theirs, &handle, sizeof theirs);
    CUdeviceptr base = 0;
    const CUresult result = cuda_.ipc_open_mem_handle(&base, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    if (result == CUDA_ERROR_ALREADY_MAPPED) return nullptr;
    need(result, "cuIpcOpenMemHandle");
    return pointer_to(base);
  }
  void close(DeviceStream stream, std::byte* base) override {
    const InContext context(*this, stream);
    need(cuda_.ipc_close_mem_handle(address_of(base)), "cuIpcCloseMemHandle");
  }

  DeviceContext context_of(DeviceStream stream) const override {
    CUcontext context = nullptr;
    // Null too where the program has not initialized CUDA.
    if (is_default(stream)) cuda_.ctx_get_current(&context);
    return context;
  }
  void enter(DeviceContext context) override {
    need(cuda_.ctx_push_current(static_cast<CUcontext>(context)), "cuCtxPushCurrent");
  }
  void leave() override {
    CUcontext context = nullptr;
    cuda_.ctx_pop_current(&context);
  }
  DeviceStream make_stream() override {
    need_context();
    CUstream stream = nullptr;
    need(cuda_.stream_create(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return stream;
  }
  void destroy_stream(DeviceStream stream) override {
    need(cuda_.stream_destroy(cuda_stream(stream)), "cuStreamDestroy");
  }

  void pin(DeviceStream stream, std::span<std::byte> memory) override {
    const InContext context(*this, stream);
    need(cuda_.mem_host_register(memory.data(), memory.size(),
                                 CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP),
         "cuMemHostRegister");
  }
  void unpin(DeviceStream stream, std::byte* memory) override {
    const InContext context(*this, stream);
    need(cuda_.mem_host_unregister(memory), "cuMemHostUnregister");
  }
  std::byte* address_of_pinned(DeviceStream stream, const std::byte* memory) const override {
    const InContext context(*this, stream);
    CUdeviceptr address = 0;
    need(cuda_.mem_host_get_device_pointer(&address, const_cast<std::byte*>(memory), 0),
         "cuMemHostGetDevicePointer");
    return pointer_to(address);
  }
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    const InContext context(*this, stream);
    need(cuda_.memcpy_async(address_of(to), address_of(from), bytes, cuda_stream(stream)), "cuMemcpyAsync");
  }
  void clear(DeviceStream stream, std::byte* memory, std::size_t bytes) override {
    const InContext context(*this, stream);
    need(cuda_.memset_d8_async(address_of(memory), 0, bytes, cuda_stream(stream)), "cuMemsetD8Async");
  }
  // Managed memory moves about, and another GPU's may be out of reach.
  bool has_jobs(DeviceStream stream, const DeviceAllocation& allocation) const override {
    const InContext context(*this, stream);
    const std::optional<Home> home = home_of(allocation);
    return home && home->owner == home->current && kernels_.job() != nullptr;
  }
  // Access is for all memory of the other context's, also what is allocated later, and is never turned off:
  // others of the process may want it too.
  bool reaches(DeviceStream stream, const DeviceAllocation& allocation) override {
    const InContext context(*this, stream);
    const std::optional<Home> home = home_of(allocation);
    if (!home || kernels_.job() == nullptr) return false;
    if (home->owner == home->current) return true;
    int can = 0;
    if (home->context == nullptr ||
        cuda_.device_can_access_peer(&can, home->current, home->owner) != CUDA_SUCCESS || can == 0)
      return false;
    const CUresult enabled = cuda_.ctx_enable_peer_access(home->context, 0);
    return enabled == CUDA_SUCCESS || enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  void do_job(DeviceStream stream, const device::Job* job, int blocks) override {
    const InContext context(*this, stream);
    void* arguments[] = {&job};
    need(cuda_.launch_kernel(kernels_.job(), static_cast<unsigned>(blocks), 1, 1, job_threads, 1, 1, 0,
                             cuda_stream(stream), arguments, nullptr),
         "cuLaunchKernel");
  }
  void call_host(DeviceStream stream, std::function<void()> body) override {
    const InContext context(*this, stream);
    auto held = std::make_unique<std::function<void()>>(std::move(body));
    need(cuda_.launch_host_func(cuda_stream(stream), &run_and_free, held.get()), "cuLaunchHostFunc");
    [[maybe_unused]] const auto* streams = held.release();
  }
  void wait_for_word(DeviceStream stream, const std::uint32_t* word, std::uint32_t value) override {
    const InContext context(*this, stream);
    const std::byte* const address = address_of_pinned(stream, reinterpret_cast<const std::byte*>(word));
    const unsigned flags =
        CU_STREAM_WAIT_VALUE_GEQ | (flushes_remote_writes() ? unsigned{CU_STREAM_WAIT_VALUE_FLUSH} : 0U);
    need(cuda_.stream_wait_value_32(cuda_stream(stream), address_of(address), value, flags),
         "cuStreamWaitValue32");
  }
  bool is_recorded(DeviceStream stream) const override {
    const InContext context(*this, stream);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    need(cuda_.stream_is_capturing(cuda_stream(stream), &status), "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
  DeviceStream companion_of(DeviceStream stream) override {
    const InContext in_context(*this, stream);
    CUcontext context = nullptr;
    need(cuda_.ctx_get_current(&context), "cuCtxGetCurrent");
    const std::lock_guard lock(mutex_);
    CUstream& companion = companions_[context];
    if (companion == nullptr) need(cuda_.stream_create(&companion, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    return companion;
  }
  // A context that has failed says so to whoever asks it anything.
  void check(DeviceStream companion) const override {
    const NotRecording relaxed(*this);
    const InContext context(*this, companion);
    need(cuda_.stream_query(cuda_stream(companion)), "cuStreamQuery");
  }
  void synchronise(DeviceStream stream) override {
    const InContext context(*this, stream);
    need(cuda_.stream_synchronize(cuda_stream(stream)), "cuStreamSynchronize");
  }

 private:
  // A stream belongs to a context, which must be the thread's while something is put on the stream. A group's
  // calls may be for several. Default streams are those of the context that the thread has.
  class InContext {
   public:
    InContext(const CudaDevice& device, DeviceStream stream) : device_(device), pushed_(!is_default(stream)) {
      if (!pushed_) return;
      CUcontext context = nullptr;
      device_.need(device_.cuda_.stream_get_ctx(cuda_stream(stream), &context), "cuStreamGetCtx");
      device_.need(device_.cuda_.ctx_push_current(context), "cuCtxPushCurrent");
    }
    ~InContext() {
      CUcontext context = nullptr;
      if (pushed_) device_.cuda_.ctx_pop_current(&context);
    }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

   private:
    const CudaDevice& device_;
    bool pushed_;
  };

  // This thread records nothing, so what it asks does no harm to what others record.
  class NotRecording {
   public:
    explicit NotRecording(const CudaDevice& device) : device_(device) {
      device_.need(device_.cuda_.thread_exchange_stream_capture_mode(&mode_),
                   "cuThreadExchangeStreamCaptureMode");
    }
    ~NotRecording() { device_.cuda_.thread_exchange_stream_capture_mode(&mode_); }
    NotRecording(const NotRecording&) = delete;
    NotRecording& operator=(const NotRecording&) = delete;

   private:
    const CudaDevice& device_;
    CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;  // then the thread's own
  };

  // Of an allocation that stays where it is, as the current context sees it.
  struct Home {
    CUdevice current, owner;
    CUcontext context;  // in which it was allocated
  };
  std::optional<Home> home_of(const DeviceAllocation& allocation) const {
    Home home{};
    unsigned managed = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                        CU_POINTER_ATTRIBUTE_CONTEXT};
    void* values[] = {&managed, &home.owner, &home.context};
    if (cuda_.ctx_get_device(&home.current) != CUDA_SUCCESS ||
        cuda_.pointer_get_attributes(std::size(attributes), attributes, values,
                                     address_of(allocation.base)) != CUDA_SUCCESS ||
        managed != 0)
      return std::nullopt;
    return home;
  }

  static CUstream cuda_stream(DeviceStream stream) { return static_cast<CUstream>(stream); }
  static bool is_default(DeviceStream stream) {
    return stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  }
  static void CUDA_CB run_and_free(void* held) {
    (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(held)))();
  }

  // Whether a wait of the current context's can be told to show what other GPUs stored before the word came.
  bool flushes_remote_writes() const {
    CUdevice device = 0;
    int can = 0;
    need(cuda_.ctx_get_device(&device), "cuCtxGetDevice");
    need(cuda_.device_get_attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, device),
         "cuDeviceGetAttribute");
    return can != 0;
  }

  void need(CUresult result, const char* function) const {
    if (result == CUDA_SUCCESS) return;
    const char* text = nullptr;
    cuda_.get_error_string(result, &text);
    fail(ErrorKind::device, "{}: {} ({})", function, text == nullptr ? "unknown" : text,
         static_cast<int>(result));
  }

  // As the runtime does it: who has chosen no device has the first one.
  void need_context() const {
    CUcontext context = nullptr;
    need(cuda_.init(0), "cuInit");
    need(cuda_.ctx_get_current(&context), "cuCtxGetCurrent");
    if (context == nullptr) enter_primary_context(0);
  }

  void enter_primary_context(CUdevice device) const {
    CUcontext context = nullptr;
    need(cuda_.device_primary_ctx_retain(&context, device), "cuDevicePrimaryCtxRetain");
    need(cuda_.ctx_set_current(context), "cuCtxSetCurrent");
  }

  static constexpr unsigned job_threads = 512;  // what kernels/device/job.cu is compiled for

  CudaLibrary cuda_;
  mutable CudaKernels kernels_;
  std::mutex mutex_;
  std::map<CUcontext, CUstream> companions_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device() {
  const auto library = CudaLibrary::load();
  return library ? std::make_unique<CudaDevice>(*library) : nullptr;
}

}  // namespace rondo
