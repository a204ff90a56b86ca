// Between hosts: every rank tells every other what it is about to call, where RONDO_CHECK asks for it. (On
// one host the segment shows it.)
#pragma once

#include <vector>

#include "src/collective.h"

namespace rondo {

class CheckRound {
 public:
  CheckRound(const CallDescriptor& mine, const Place& place);
  CheckRound(const CheckRound&) = delete;
  CheckRound& operator=(const CheckRound&) = delete;

  // True when all have told.
  bool step() const;
  const std::vector<CallDescriptor>& descriptors() const { return descriptors_; }  // by rank

 private:
  Transport& transport_;
  std::vector<CallDescriptor> descriptors_;
  std::vector<Ticket> tickets_;
};

}  // namespace rondo
