// Every rank gives bytes of any length and gets everybody's: for reports, not for speed.
#pragma once

#include <string>
#include <vector>

#include "src/communicator.h"

namespace rondo {

// Collective. Booked under report_scope, which reports and the matrix leave out.
std::vector<std::string> gather_bytes(Communicator& communicator, const std::string& mine);

// Collective: bytes sent since the last reset of the ledger, [from * size + to], but for those of reports.
std::vector<std::uint64_t> ledger_matrix(Communicator& communicator, ByteClass byte_class);

// Collective: the payload that the formulas expect for the same calls, but for those of reports.
std::vector<std::uint64_t> expected_matrix(Communicator& communicator);

}  // namespace rondo
