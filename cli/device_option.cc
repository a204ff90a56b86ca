#include "cli/device_option.h"

#include <CLI/CLI.hpp>

#include "models/device_compute.h"

namespace rondo {

void add_device_option(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "Where the model computes: cpu, or cuda (a GPU a rank, or shared)")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
}

ChosenCompute::ChosenCompute(const std::string& device, const Communicator& communicator) {
  if (device == "cpu") return;
  try {
    own_ = make_cuda_compute(communicator);
  } catch (const Error& error) {
    fail(error.kind(), "--device {}: {}", device, error.what());
  }
}

}  // namespace rondo
