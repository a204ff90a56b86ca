#include "transports/cuda_library.h"

#include <dlfcn.h>

#include "src/log.h"

// The header renames functions to their newest versions: the name as the library has it.
#define RONDO_TEXT_OF(name) #name
#define RONDO_SYMBOL(name) RONDO_TEXT_OF(name)

namespace rondo {

std::optional<CudaLibrary> CudaLibrary::load() {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    logger().debug("no CUDA: {}", ::dlerror());
    return std::nullopt;
  }
  CudaLibrary cuda{};
  bool whole = true;
  const auto find = [&](auto& function, const char* name) {
    void* const found = ::dlsym(library, name);
    if (found == nullptr) logger().warn("no CUDA: the driver that is installed lacks {}", name);
    whole &= found != nullptr;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(cuda.init, RONDO_SYMBOL(cuInit));
  find(cuda.get_error_string, RONDO_SYMBOL(cuGetErrorString));
  find(cuda.ctx_get_current, RONDO_SYMBOL(cuCtxGetCurrent));
  find(cuda.ctx_push_current, RONDO_SYMBOL(cuCtxPushCurrent));
  find(cuda.ctx_pop_current, RONDO_SYMBOL(cuCtxPopCurrent));
  find(cuda.ctx_set_current, RONDO_SYMBOL(cuCtxSetCurrent));
  find(cuda.device_primary_ctx_retain, RONDO_SYMBOL(cuDevicePrimaryCtxRetain));
  find(cuda.pointer_get_attributes, RONDO_SYMBOL(cuPointerGetAttributes));
  find(cuda.mem_alloc, RONDO_SYMBOL(cuMemAlloc));
  find(cuda.mem_free, RONDO_SYMBOL(cuMemFree));
  find(cuda.mem_host_register, RONDO_SYMBOL(cuMemHostRegister));
  find(cuda.mem_host_unregister, RONDO_SYMBOL(cuMemHostUnregister));
  find(cuda.mem_host_get_device_pointer, RONDO_SYMBOL(cuMemHostGetDevicePointer));
  find(cuda.memcpy_async, RONDO_SYMBOL(cuMemcpyAsync));
  find(cuda.memset_d8_async, RONDO_SYMBOL(cuMemsetD8Async));
  find(cuda.ipc_get_mem_handle, RONDO_SYMBOL(cuIpcGetMemHandle));
  find(cuda.ipc_open_mem_handle, RONDO_SYMBOL(cuIpcOpenMemHandle));
  find(cuda.ipc_close_mem_handle, RONDO_SYMBOL(cuIpcCloseMemHandle));
  find(cuda.stream_create, RONDO_SYMBOL(cuStreamCreate));
  find(cuda.stream_destroy, RONDO_SYMBOL(cuStreamDestroy));
  find(cuda.stream_get_ctx, RONDO_SYMBOL(cuStreamGetCtx));
  find(cuda.stream_is_capturing, RONDO_SYMBOL(cuStreamIsCapturing));
  find(cuda.stream_query, RONDO_SYMBOL(cuStreamQuery));
  find(cuda.thread_exchange_stream_capture_mode, RONDO_SYMBOL(cuThreadExchangeStreamCaptureMode));
  find(cuda.stream_synchronize, RONDO_SYMBOL(cuStreamSynchronize));
  find(cuda.stream_wait_value_32, RONDO_SYMBOL(cuStreamWaitValue32));
  find(cuda.launch_host_func, RONDO_SYMBOL(cuLaunchHostFunc));
  find(cuda.ctx_get_device, RONDO_SYMBOL(cuCtxGetDevice));
  find(cuda.ctx_enable_peer_access, RONDO_SYMBOL(cuCtxEnablePeerAccess));
  find(cuda.device_can_access_peer, RONDO_SYMBOL(cuDeviceCanAccessPeer));
  find(cuda.device_get_count, RONDO_SYMBOL(cuDeviceGetCount));
  find(cuda.device_get_uuid, RONDO_SYMBOL(cuDeviceGetUuid));
  find(cuda.device_get_attribute, RONDO_SYMBOL(cuDeviceGetAttribute));
  find(cuda.launch_kernel, RONDO_SYMBOL(cuLaunchKernel));
  const auto find_newer = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
  };
  find_newer(cuda.library_load_data, RONDO_SYMBOL(cuLibraryLoadData));
  find_newer(cuda.library_get_kernel, RONDO_SYMBOL(cuLibraryGetKernel));
  find_newer(cuda.kernel_get_function, RONDO_SYMBOL(cuKernelGetFunction));
  find_newer(cuda.func_get_attribute, RONDO_SYMBOL(cuFuncGetAttribute));
  find_newer(cuda.func_load, RONDO_SYMBOL(cuFuncLoad));
  return whole ? std::optional(cuda) : std::nullopt;
}

}  // namespace rondo
