#include "src/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "src/error.h"
#include "src/pages.h"
#include "src/shared_memory.h"

namespace rondo {
namespace {

// Where the parts lie: failure, meetings, then rank lines, then stream lines, then from a page on the ranks'
// slots, their staging areas and the streams' data.
struct Layout {
  Layout(int ranks, SegmentSizes sizes)
      : streams(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks) * channel_count),
        rank_lines(sizeof(Failure) + 2 * sizeof(Meeting)),
        stream_lines(rank_lines + static_cast<std::size_t>(ranks) * sizeof(RankLines)),
        slots(whole_pages(stream_lines + streams * sizeof(StreamLines))),
        staging(whole_pages(slots + static_cast<std::size_t>(ranks) * 2 * sizeof(CallSlot))),
        data(staging + static_cast<std::size_t>(ranks) * sizes.staging),
        stream_stride(whole_pages(sizes.stream)),
        total(data + streams * stream_stride) {}

  std::size_t streams, rank_lines, stream_lines, slots, staging, data, stream_stride, total;
};

}  // namespace

Fd Segment::create(int ranks, SegmentSizes sizes) {
  const Layout layout(ranks, sizes);
  // The control lines are taken at once, the rest when it is first used.
  return make_shared_memory("rondo", layout.total, layout.staging);
}

std::shared_ptr<Segment> Segment::map(const Fd& memory, int ranks, SegmentSizes sizes,
                                      std::vector<Fd> alarms) {
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Segment>> mapped;
  struct stat status {};
  if (::fstat(memory.get(), &status) != 0) fail_memory("fstat", 0);
  const std::lock_guard lock(mutex);
  std::erase_if(mapped, [](const auto& entry) { return entry.second.expired(); });
  auto& known = mapped[{status.st_dev, status.st_ino}];
  if (auto segment = known.lock()) return segment;
  const std::size_t total = Layout(ranks, sizes).total;
  std::byte* base = map_shared_memory(memory, total, Pages::when_touched);
  auto segment = std::make_shared<Segment>(base, ranks, sizes, std::move(alarms));
  known = segment;
  return segment;
}

Segment::Segment(std::byte* base, int ranks, SegmentSizes sizes, std::vector<Fd> alarms)
    : base_(base),
      ranks_(ranks),
      sizes_(sizes),
      alarms_(std::move(alarms)),
      rank_lines_(Layout(ranks, sizes).rank_lines),
      slots_(Layout(ranks, sizes).slots),
      staging_(Layout(ranks, sizes).staging) {}

Segment::~Segment() { ::munmap(base_, Layout(ranks_, sizes_).total); }

// The memory starts as zeros, which is the initial value of every atomic in it.
Failure& Segment::failure() const { return *reinterpret_cast<Failure*>(base_); }

Meeting& Segment::arrivals() const { return *reinterpret_cast<Meeting*>(base_ + sizeof(Failure)); }

Meeting& Segment::departures() const {
  return *reinterpret_cast<Meeting*>(base_ + sizeof(Failure) + sizeof(Meeting));
}

std::size_t Segment::stream_index(int from, int to, Channel channel) const {
  return static_cast<std::size_t>((from * ranks_ + to) * channel_count + static_cast<int>(channel));
}

StreamLines& Segment::stream(int from, int to, Channel channel) const {
  auto* lines = reinterpret_cast<StreamLines*>(base_ + Layout(ranks_, sizes_).stream_lines);
  return lines[stream_index(from, to, channel)];
}

std::span<std::byte> Segment::stream_data(int from, int to, Channel channel) const {
  const Layout layout(ranks_, sizes_);
  return {base_ + layout.data + stream_index(from, to, channel) * layout.stream_stride, sizes_.stream};
}

void Segment::reserve(std::span<std::byte> part) const {
  const std::size_t bytes = whole_pages(part.size());
  int result;
  do result = ::madvise(part.data(), bytes, MADV_POPULATE_WRITE);
  while (result != 0 && errno == EINTR);
  if (result == 0) return;
  // Kernels before 5.14 do not know the advice: pages then come as they are touched.
  if (errno != EINVAL) fail_memory("reserving", bytes);
}

}  // namespace rondo
