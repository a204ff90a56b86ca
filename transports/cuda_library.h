// CUDA's driver, loaded where it is there. It comes with the GPU's kernel module and not with a toolkit, so
// that a program linked to it would not start elsewhere. Its own cuInit is the program's to call, through
// whatever CUDA it uses: until then every function says "not initialized", and a program that uses no GPU is
// none the worse, nor are the children that it forks.
#pragma once

#include <cuda.h>

#include <optional>

namespace rondo {

// Its functions, by their own names.
struct CudaLibrary {
  // Nothing where there is none, or one that lacks something.
  static std::optional<CudaLibrary> load();

  decltype(&::cuInit) init;
  decltype(&::cuGetErrorString) get_error_string;
  decltype(&::cuCtxGetCurrent) ctx_get_current;
  decltype(&::cuCtxPushCurrent) ctx_push_current;
  decltype(&::cuCtxPopCurrent) ctx_pop_current;
  decltype(&::cuCtxSetCurrent) ctx_set_current;
  decltype(&::cuDevicePrimaryCtxRetain) device_primary_ctx_retain;
  decltype(&::cuPointerGetAttributes) pointer_get_attributes;
  decltype(&::cuMemAlloc) mem_alloc;
  decltype(&::cuMemFree) mem_free;
  decltype(&::cuMemHostRegister) mem_host_register;
  decltype(&::cuMemHostUnregister) mem_host_unregister;
  decltype(&::cuMemHostGetDevicePointer) mem_host_get_device_pointer;
  decltype(&::cuMemcpyAsync) memcpy_async;
  decltype(&::cuMemsetD8Async) memset_d8_async;
  decltype(&::cuIpcGetMemHandle) ipc_get_mem_handle;
  decltype(&::cuIpcOpenMemHandle) ipc_open_mem_handle;
  decltype(&::cuIpcCloseMemHandle) ipc_close_mem_handle;
  decltype(&::cuStreamCreate) stream_create;
  decltype(&::cuStreamDestroy) stream_destroy;
  decltype(&::cuStreamGetCtx) stream_get_ctx;
  decltype(&::cuStreamIsCapturing) stream_is_capturing;
  decltype(&::cuStreamQuery) stream_query;
  decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode;
  decltype(&::cuStreamSynchronize) stream_synchronize;
  decltype(&::cuStreamWaitValue32) stream_wait_value_32;
  decltype(&::cuLaunchHostFunc) launch_host_func;
  decltype(&::cuCtxGetDevice) ctx_get_device;
  decltype(&::cuCtxEnablePeerAccess) ctx_enable_peer_access;
  decltype(&::cuDeviceCanAccessPeer) device_can_access_peer;
  decltype(&::cuDeviceGetCount) device_get_count;
  decltype(&::cuDeviceGetUuid) device_get_uuid;
  decltype(&::cuDeviceGetAttribute) device_get_attribute;
  decltype(&::cuLaunchKernel) launch_kernel;
  // For kernels, since CUDA 12: null before.
  decltype(&::cuLibraryLoadData) library_load_data;
  decltype(&::cuLibraryGetKernel) library_get_kernel;
  decltype(&::cuKernelGetFunction) kernel_get_function;
  decltype(&::cuFuncGetAttribute) func_get_attribute;
  bool has_libraries() const {
    return library_load_data != nullptr && library_get_kernel != nullptr && kernel_get_function != nullptr &&
           func_get_attribute != nullptr;
  }
  decltype(&::cuFuncLoad) func_load;  // since CUDA 12.4: null before
};

}  // namespace rondo
