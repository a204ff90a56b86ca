// Memory whose content lives in a memfd, so that other processes can map it.
#pragma once

#include <cstddef>
#include <span>

#include "src/fd.h"

namespace rondo {

// Throws system with errno's text: `what` failed for so many bytes.
[[noreturn]] void fail_memory(const char* what, std::size_t bytes);

// Zeroed memory of whole pages, sealed against shrinking: no process may pull it away from under another. The
// first `taken` bytes are taken now, so that shortage is an Error and not a SIGBUS. Throws system. The name
// stands in /proc.
Fd make_shared_memory(const char* name, std::size_t bytes, std::size_t taken);
// All of it, with its pages entered in this process's page table now or one by one. Throws system.
enum class Pages { now, when_touched };
std::byte* map_shared_memory(const Fd& memory, std::size_t bytes, Pages pages);

// Puts shared pages in the place of private ones: addresses and content stay. Nobody may write there
// meanwhile. Throws invalid_argument unless all of it is private anonymous memory that may be written, and
// no stack.
Fd exchange_for_shared_pages(std::span<std::byte> pages);
// The reverse, for pages that are all of `memory`.
void exchange_for_private_pages(const Fd& memory, std::span<std::byte> pages);

}  // namespace rondo
