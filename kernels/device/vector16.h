// 16 bytes at once, from and to addresses of any alignment. A GPU faults on a load that is not aligned to its
// own size, so what is misaligned is moved in the widest pieces that its address allows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"

namespace rondo::device {

struct alignas(16) Vector16 {
  std::uint64_t part[2];
};

// The widest piece, of 1 to 16 bytes, that `address` is aligned to.
RONDO_HOST_DEVICE inline unsigned alignment_of(const std::byte* address) {
  const auto low = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) | 16u);
  return low & (~low + 1u);
}

// One load or store; the address is aligned to the type's size.
template <typename W>
[[gnu::always_inline]] RONDO_HOST_DEVICE inline W load_word(const std::byte* from) {
  W word;
  __builtin_memcpy(&word, __builtin_assume_aligned(from, sizeof(W)), sizeof(W));
  return word;
}
template <typename W>
[[gnu::always_inline]] RONDO_HOST_DEVICE inline void store_word(std::byte* to, W word) {
  __builtin_memcpy(__builtin_assume_aligned(to, sizeof(W)), &word, sizeof(W));
}

template <typename W>
struct Words16 {
  W word[16 / sizeof(W)];
};
template <typename W>
RONDO_HOST_DEVICE inline Vector16 load_words(const std::byte* from) {
  Words16<W> words;
  RONDO_UNROLL
  for (unsigned i = 0; i < 16 / sizeof(W); ++i) words.word[i] = load_word<W>(from + i * sizeof(W));
  return __builtin_bit_cast(Vector16, words);
}
template <typename W>
RONDO_HOST_DEVICE inline void store_words(std::byte* to, Vector16 vector) {
  const auto words = __builtin_bit_cast(Words16<W>, vector);
  RONDO_UNROLL
  for (unsigned i = 0; i < 16 / sizeof(W); ++i) store_word<W>(to + i * sizeof(W), words.word[i]);
}

// Called and not inlined: many loops share them, and they are not what is to be fast.
[[gnu::noinline]] RONDO_HOST_DEVICE inline Vector16 load_misaligned(const std::byte* from) {
  switch (alignment_of(from)) {
    case 8:
      return load_words<std::uint64_t>(from);
    case 4:
      return load_words<std::uint32_t>(from);
    case 2:
      return load_words<std::uint16_t>(from);
    default:
      return load_words<std::uint8_t>(from);
  }
}
[[gnu::noinline]] RONDO_HOST_DEVICE inline void store_misaligned(std::byte* to, Vector16 vector) {
  switch (alignment_of(to)) {
    case 8:
      return store_words<std::uint64_t>(to, vector);
    case 4:
      return store_words<std::uint32_t>(to, vector);
    case 2:
      return store_words<std::uint16_t>(to, vector);
    default:
      return store_words<std::uint8_t>(to, vector);
  }
}

RONDO_HOST_DEVICE inline Vector16 load(const std::byte* from) {
  return alignment_of(from) == 16 ? load_word<Vector16>(from) : load_misaligned(from);
}
RONDO_HOST_DEVICE inline void store(std::byte* to, Vector16 vector) {
  if (alignment_of(to) == 16)
    store_word(to, vector);
  else
    store_misaligned(to, vector);
}

// One element at any address, byte by byte where need be.
template <typename T>
RONDO_HOST_DEVICE inline T load_element(const std::byte* from) {
  T element;
  __builtin_memcpy(&element, from, sizeof(T));
  return element;
}
template <typename T>
RONDO_HOST_DEVICE inline void store_element(std::byte* to, T element) {
  __builtin_memcpy(to, &element, sizeof(T));
}

// How a run of bytes is worked on: some elements one by one until `address` is aligned to 16 bytes, whole
// vectors, and the rest one by one. Where no whole number of elements gets there, vectors begin at once.
struct Cut {
  std::size_t head, vectors, tail;  // bytes, vectors, bytes

  RONDO_HOST_DEVICE Cut(const std::byte* address, std::size_t bytes, std::size_t element_bytes) {
    const std::size_t to_boundary = (0 - reinterpret_cast<std::uintptr_t>(address)) & 15u;
    head = to_boundary % element_bytes != 0 ? 0 : to_boundary < bytes ? to_boundary : bytes;
    vectors = (bytes - head) / 16;
    tail = bytes - head - vectors * 16;
  }

  // Where element number i of those that stand alone begins.
  RONDO_HOST_DEVICE std::size_t lone_byte(std::size_t i, std::size_t element_bytes) const {
    const std::size_t at = i * element_bytes;
    return at < head ? at : at + vectors * 16;
  }
};

}  // namespace rondo::device
