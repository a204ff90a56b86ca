// The rows of a ledger's report as people and as machines read them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/report.h"

namespace rondo {

// A table for each model, with the explanations beneath. Where ranks differ: the least and the most.
void print_report(const std::vector<ReportRow>& rows);

// {"model", "stage", "collective", "documented", "documented_text", "expected", "measured", "difference",
// "note"}: bytes that a rank sends or holds; expected and measured list the ranks, documented is null where
// there is none.
nlohmann::ordered_json report_json(const std::vector<ReportRow>& rows);

// The rows whose measured bytes are not the expected ones.
std::size_t inexact_rows(const std::vector<ReportRow>& rows);

// What each rank (row) sent to each other (column).
void print_matrix(const std::vector<std::uint64_t>& matrix, int size);

}  // namespace rondo
