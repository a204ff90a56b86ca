// --device: where a command's model computes.
#pragma once

#include <memory>
#include <string>

#include "models/compute.h"

namespace CLI {
class App;
}  // namespace CLI

namespace rondo {

void add_device_option(CLI::App& command, std::string& device);

// What --device says, on a rank. The parent of forked ranks must not make one: CUDA does not survive a fork.
class ChosenCompute {
 public:
  // Throws invalid_argument, naming the argument, where the machine has no such device.
  ChosenCompute(const std::string& device, const Communicator& communicator);

  Compute& get() const { return own_ ? *own_ : cpu_compute(); }

 private:
  std::unique_ptr<Compute> own_;  // null: the CPU
};

}  // namespace rondo
