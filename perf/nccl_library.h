// NCCL, loaded beside Rondo when a comparison is asked for. Nothing is linked with it, and none of its
// symbols is seen by others, so that it may be Rondo's own librondo-nccl.so.
#pragma once

#include <memory>
#include <string>

#include "include/rondo/rondo.hpp"
#include "perf/functions.h"

namespace rondo {

class NcclLibrary {
 public:
  // `name`: "nccl" for libnccl.so.2 where the loader finds it, or a path. `needed`: the collective's function
  // without its prefix, such as "AllReduce". Starts nothing on a GPU: ranks may be forked afterwards. Throws
  // invalid_argument, naming the library and what it lacks.
  NcclLibrary(const std::string& name, const std::string& needed);

  const Functions& functions() const { return functions_; }
  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }  // "2.28.9"

 private:
  void* find(const std::string& function) const;
  void* need(const std::string& function) const;
  template <typename Function>
  void take(Function& function, const char* name) {
    function = reinterpret_cast<Function>(need(name));
  }
  std::string read_version() const;

  struct Close {
    void operator()(void* library) const;
  };
  std::string path_;
  std::unique_ptr<void, Close> library_;
  std::string version_;
  Functions functions_{};
};

// This rank's place in a communicator of NCCL's, over the same ranks, on the thread's current GPU.
class NcclCommunicator {
 public:
  // Collective. The id travels by Rondo.
  NcclCommunicator(const NcclLibrary& library, Communicator& communicator);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  Callee callee() const { return {"NCCL", functions_, comm_}; }

 private:
  const Functions& functions_;
  rondoComm_t comm_ = nullptr;
};

}  // namespace rondo
