// Where ranks outnumber the cores, the parts of a call on windows are moved by whoever runs: a rank that has
// come to the call and waits for a core need not get one for its own part too. Part p is what rank p would
// move: its bytes are booked there, whoever moves them.
#pragma once

#include <optional>

#include "src/segment.h"

namespace rondo {

// True for one of the ranks that ask: it moves part `part` of call number `sequence`.
bool begin_part(const Segment& segment, int part, std::uint64_t sequence);

// By who has moved the part of another rank; to be released by what tells that the part is done.
void leave_note(const Segment& segment, int part, std::uint64_t sequence, const PartBytes& moved);

// Once all parts are done, for rank `part`: what another rank has moved for it.
std::optional<PartBytes> note_of(const Segment& segment, int part, std::uint64_t sequence);

}  // namespace rondo
