#include "cli/explain_way.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/table.h"
#include "src/caches.h"
#include "src/collective.h"
#include "src/error.h"

namespace rondo {
namespace {

bool is_all_or_nothing(CallKind kind) {
  return kind == CallKind::all_gather || kind == CallKind::reduce_scatter;
}

// Whether the question's buffers are windows; the rest is the library's to say.
Ways possible_ways(const CollectiveQuestion& question, const Call& call) {
  return {question.buffers == BufferKind::rondo && can_use_windows(call),
          question.settings.staging_bytes > 0};
}

Algorithm way_of(const CollectiveQuestion& question, const Call& call) {
  const Algorithm chosen = choose_algorithm(call, question.settings.algorithm);
  return choose_way(call, chosen, question.ranks, possible_ways(question, call), question.settings);
}

// Such as "RONDO_STAGING_BYTES=1,048,576, default".
template <std::size_t Settings::*field>
std::string setting_text(const Settings& settings, const char* variable) {
  return fmt::format("{}={}, {}", variable, grouped(settings.*field), name_of(settings.origin_of(variable)));
}

std::string streams_reason(const CollectiveQuestion& question, const Call& call, Algorithm chosen) {
  const Settings& settings = question.settings;
  if (question.ranks == 1) return "nothing is sent";
  if (chosen == Algorithm::ring) return "what comes in from one neighbour goes out to the other";
  if (chosen == Algorithm::one_shot) return "each rank sends all that it has to each other one";
  if (chosen == Algorithm::doubling) return "pairs of ranks exchange all that they have, round after round";
  if (chosen == Algorithm::tree) return "what comes in from the rank above goes out to those below";
  if (!has_ways(call, chosen, question.ranks, settings)) return "calls of this kind go no other way";
  if (settings.staging_bytes == 0)
    return fmt::format("memory from malloc, and no staging areas ({})",
                       setting_text<&Settings::staging_bytes>(settings, "RONDO_STAGING_BYTES"));
  const bool gathers = call.kind == CallKind::all_gather;
  return fmt::format(
      "memory from malloc, too small for staging areas ({})",
      gathers ? setting_text<&Settings::staged_gather_above>(settings, "RONDO_STAGED_GATHER_ABOVE")
              : setting_text<&Settings::staged_reduce_above>(settings, "RONDO_STAGED_REDUCE_ABOVE"));
}

std::string stores_text(const CollectiveQuestion& question, const Call& call, std::size_t above,
                        const std::string& setting) {
  const bool streaming =
      output_stores(call.kind, call.all_bytes(), question.ranks, above) == Stores::streaming;
  return fmt::format("{}, for {} bytes that all ranks touch ({})",
                     streaming ? "past the caches" : "into the caches",
                     grouped(touched_bytes(call.kind, call.all_bytes(), question.ranks)), setting);
}

// ---- times ----

using Point = std::pair<const std::size_t, double>;

// On straight lines between measurements, where both scales are logarithmic.
double between(const Point& low, const Point& high, double bytes) {
  const double share = std::log(bytes / static_cast<double>(low.first)) /
                       std::log(static_cast<double>(high.first) / static_cast<double>(low.first));
  return low.second * std::pow(high.second / low.second, share);
}

// Those measured sizes that go the way in question: at a change of the way times jump.
std::map<std::size_t, double> points_of_way(const CollectiveQuestion& question, Algorithm way,
                                            const TunedTimes& times) {
  std::map<std::size_t, double> points;
  for (const auto& [bytes, time] : times.microseconds) {
    CollectiveQuestion measured = question;
    measured.type = DataType::f32;
    measured.count = bytes / sizeof(float);
    if (is_all_or_nothing(question.kind)) measured.count /= static_cast<std::size_t>(question.ranks);
    if (way_of(measured, describe(measured)) == way) points.emplace(bytes, time);
  }
  return points;
}

ExpectedTime from_points(const std::map<std::size_t, double>& points, std::size_t bytes,
                         const std::string& source) {
  if (points.empty()) return {std::nullopt, "not measured: no size that was measured goes this way"};
  const auto above = points.lower_bound(bytes);
  if (above != points.end() && above->first == bytes) return {above->second, source};
  if (above == points.begin())
    return {above->second, fmt::format("that of {} bytes, the least {}", grouped(above->first), source)};
  const auto below = std::prev(above);
  if (above == points.end())
    return {below->second * static_cast<double>(bytes) / static_cast<double>(below->first),
            fmt::format("scaled up from {} bytes, the most {}", grouped(below->first), source)};
  return {between(*below, *above, static_cast<double>(bytes)),
          fmt::format("between those of {} and {} bytes, {}", grouped(below->first), grouped(above->first),
                      source)};
}

bool tuned_by_hand(const Settings& settings) {
  return std::any_of(variables().begin(), variables().end(), [&](const Variable& variable) {
    return variable.tuned != nullptr && settings.origin_of(variable.name) == Origin::environment;
  });
}

std::string source_text(const CollectiveQuestion& question, const TuneFile& file) {
  std::string text = fmt::format("measured on this host by rondo tune on {}", file.date);
  if (question.type != DataType::f32) text += ", with f32";
  if (tuned_by_hand(question.settings)) text += ", without what the environment sets now";
  return text;
}

}  // namespace

bool has_root(CallKind kind) { return kind == CallKind::broadcast || kind == CallKind::reduce; }

Call describe(const CollectiveQuestion& question) {
  const std::size_t ranks = static_cast<std::size_t>(question.ranks), element = size_of(question.type);
  if (question.count > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / element / ranks)
    fail(ErrorKind::invalid_argument, "--count {}: so many {} on {} ranks do not fit an address space",
         question.count, name_of(question.type), ranks);
  Call call;
  call.kind = question.kind;
  call.type = question.type;
  call.root = question.root;
  call.count = question.count;
  if (has_root(question.kind)) {
    call.chunk_bytes = {question.count * element};
  } else if (is_all_or_nothing(question.kind)) {
    call.chunk_bytes.assign(ranks, question.count * element);
  } else {
    // As calls.cc shares out: one element more for the first ranks where they do not divide.
    for (std::size_t rank = 0; rank < ranks; ++rank)
      call.chunk_bytes.push_back((question.count / ranks + (rank < question.count % ranks ? 1 : 0)) *
                                 element);
  }
  return call;
}

std::string why_staged(const CollectiveQuestion& question, const Call& call) {
  return why_not_on_devices(call, question.ranks, question.settings);
}

Memory memory_of(const CollectiveQuestion& question, const Call& call) {
  if (!question.on_device) return Memory::host;
  return why_staged(question, call).empty() ? Memory::device : Memory::device_staged;
}

Way explain_way(const CollectiveQuestion& question, const Call& call) {
  const Settings& settings = question.settings;
  if (memory_of(question, call) == Memory::device)
    return {Algorithm::windows, "windows",
            "device memory: each rank's stream reads and writes all ranks' buffers itself, where all lie on "
            "devices that reach one another's memory; else host staging",
            ""};
  switch (const Algorithm way = way_of(question, call)) {
    case Algorithm::slots:
      return {way, "slots",
              fmt::format("no rank's input has more than {} bytes: it stands beside the call's descriptor",
                          grouped(slot_bytes)),
              ""};
    case Algorithm::windows:
      return {way, "windows", "memory of rondoMemAlloc: each rank reads and writes all ranks' buffers itself",
              stores_text(question, call, settings.windows_streaming_above,
                          setting_text<&Settings::windows_streaming_above>(settings,
                                                                           "RONDO_WINDOWS_STREAMING_ABOVE"))};
    case Algorithm::staged:
      return {way, "staged",
              fmt::format("memory from malloc, through an area of each rank ({})",
                          setting_text<&Settings::staging_bytes>(settings, "RONDO_STAGING_BYTES")),
              stores_text(
                  question, call, settings.staged_streaming_above,
                  setting_text<&Settings::staged_streaming_above>(settings, "RONDO_STAGED_STREAMING_ABOVE"))};
    case Algorithm::ring:
    case Algorithm::direct:
    case Algorithm::one_shot:
    case Algorithm::doubling:
    case Algorithm::tree:
    case Algorithm::automatic:
    case Algorithm::hierarchy:  // between hosts only
      return {way, "streams", streams_reason(question, call, way), ""};
  }
  return {};
}

ExpectedTime expected_time(const CollectiveQuestion& question, const Call& call,
                           const std::optional<TuneFile>& file) {
  if (question.on_device) return {std::nullopt, "not measured: `rondo tune` measures host memory"};
  if (!file)
    return {std::nullopt,
            question.settings.tune_file_ignored.empty()
                ? "not measured: run `rondo tune`"
                : fmt::format("not measured: {} is ignored: {}; run `rondo tune`",
                              question.settings.tune_file, question.settings.tune_file_ignored)};
  if (!has_direct_ways(question.kind))
    return {std::nullopt, "not measured: `rondo tune` measures all-reduce, all-gather and reduce-scatter"};
  if (const Algorithm forced = choose_algorithm(question.kind, question.settings.algorithm);
      forced != Algorithm::direct)
    return {std::nullopt,
            fmt::format("not measured: `rondo tune` measures what is picked without RONDO_ALGO={}",
                        name_of(forced))};
  for (const TunedTimes& times : file->times)
    if (times.collective == name_of(question.kind) && times.buffers == name_of(question.buffers) &&
        times.ranks == question.ranks)
      return from_points(points_of_way(question, way_of(question, call), times), call.all_bytes(),
                         source_text(question, *file));
  return {std::nullopt, fmt::format("not measured on {0} rank{1}: run `rondo tune --ranks {0}`",
                                    question.ranks, question.ranks == 1 ? "" : "s")};
}

}  // namespace rondo
