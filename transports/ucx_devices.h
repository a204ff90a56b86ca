// The network devices that UCX finds here.
#pragma once

#include <string>

namespace rondo {

// Throws, naming the choices, unless each name of the list "a,b" is that of a network device.
void need_network_devices(const std::string& list);

}  // namespace rondo
