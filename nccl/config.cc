#include "nccl/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>

#include "nccl/edge.h"

namespace rondo::nccl {
namespace {

constexpr ncclConfig_t defaults = NCCL_CONFIG_INITIALIZER;

// Older programs have shorter structs: what they lack is as if they had not set it.
ncclConfig_t whole(const ncclConfig_t& given) {
  constexpr std::size_t least = offsetof(ncclConfig_t, blocking) + sizeof(int);
  if (given.size < least)
    refuse(
        fmt::format("config size {}: expected at least {} (use NCCL_CONFIG_INITIALIZER)", given.size, least));
  ncclConfig_t config = defaults;
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  if (config.magic != defaults.magic)
    refuse(fmt::format("config magic {:#x}: expected {:#x} (use NCCL_CONFIG_INITIALIZER)", config.magic,
                       defaults.magic));
  return config;
}

void need_range(const char* member, int value, int least, int most) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most)) return;
  if (most == INT_MAX) refuse(fmt::format("config {} {}: expected at least {}", member, value, least));
  refuse(fmt::format("config {} {}: expected {} to {}", member, value, least, most));
}

void check_members(const ncclConfig_t& config) {
  need_range("blocking", config.blocking, 0, 1);
  need_range("cgaClusterSize", config.cgaClusterSize, 0, INT_MAX);
  need_range("minCTAs", config.minCTAs, 1, INT_MAX);
  need_range("maxCTAs", config.maxCTAs, 1, INT_MAX);
  if (config.minCTAs > config.maxCTAs && config.maxCTAs != NCCL_CONFIG_UNDEF_INT)
    refuse(fmt::format("config minCTAs {} is above maxCTAs {}", config.minCTAs, config.maxCTAs));
  need_range("splitShare", config.splitShare, 0, 1);
  need_range("collnetEnable", config.collnetEnable, 0, 1);
  need_range("CTAPolicy", config.CTAPolicy, NCCL_CTA_POLICY_DEFAULT,
             NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO);
  need_range("shrinkShare", config.shrinkShare, 0, 1);
  need_range("nvlsCTAs", config.nvlsCTAs, 1, INT_MAX);
  need_range("nChannelsPerNetPeer", config.nChannelsPerNetPeer, 1, INT_MAX);
  need_range("nvlinkCentricSched", config.nvlinkCentricSched, 0, 1);
  // NCCL fails on a network that it does not have.
  if (config.netName != nullptr)
    not_offered(fmt::format("config netName \"{}\": Rondo's networks are chosen by RONDO_NET_DEVICES",
                            config.netName));
}

}  // namespace

std::string name_from(const ncclConfig_t* config) {
  if (config == nullptr) return "";
  const ncclConfig_t complete = whole(*config);
  check_members(complete);
  return complete.commName == nullptr ? "" : complete.commName;
}

}  // namespace rondo::nccl
