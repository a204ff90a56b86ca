// Ids that are good on several hosts: they carry the address at which rank 0 will listen.
#pragma once

#include <optional>

#include "src/bootstrap.h"

namespace rondo {

// RONDO_COMM_ID, "host:port" (read in src/settings.cc, with all other variables); nothing where it is not
// set.
std::optional<Endpoint> comm_id_endpoint();

// A new id: for ranks of this host, unless RONDO_COMM_ID is set.
UniqueId make_unique_id();

}  // namespace rondo
