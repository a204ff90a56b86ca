// Whom Rondo is compared with, as the results tell it.
#pragma once

#include <string>

namespace rondo {

struct Against {
  std::string library, version;
  std::string left_out;  // why there are no figures of it; empty: there are
};

}  // namespace rondo
