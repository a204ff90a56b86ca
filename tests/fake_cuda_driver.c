/* Stands for libcuda.so.1 where there is no GPU: the two functions that librondo-nccl.so asks, about a
 * process whose current device is number 3, and whose device memory is one array. */
#include <cuda.h>
#include <string.h>

__attribute__((visibility("default"))) char fake_device_memory[256];

__attribute__((visibility("default"))) CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 3;
  return CUDA_SUCCESS;
}

__attribute__((visibility("default"))) CUresult cuPointerGetAttribute(void* data,
                                                                      CUpointer_attribute attribute,
                                                                      CUdeviceptr pointer) {
  const CUdeviceptr first = (CUdeviceptr)fake_device_memory;
  if (pointer < first || pointer >= first + sizeof fake_device_memory) return CUDA_ERROR_INVALID_VALUE;
  const unsigned value = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : 0;
  memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}
