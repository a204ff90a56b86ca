// The one policy of waiting: spin a little, then let others run, then sleep. Where ranks outnumber cores
// spinning only keeps the one away for whom one waits.
#pragma once

#include <sched.h>

namespace rondo {

class Patience {
 public:
  // Whether those who are waited for have a core at the moment, as far as one can know: then it is worth some
  // microseconds of spinning even where ranks outnumber cores.
  enum class Others { may_wait, run };

  explicit Patience(bool oversubscribed, Others others = Others::may_wait)
      : spins_(oversubscribed ? (others == Others::run ? 300 : 0) : 2000),
        yields_(oversubscribed ? 20 : 50) {}

  void reset() { idle_ = 0; }
  bool worn_out() const { return idle_ >= spins_ + yields_; }
  void relax() {
    if (idle_++ < spins_)
      pause_cpu();
    else
      ::sched_yield();
  }

 private:
  static void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  int spins_, yields_, idle_ = 0;
};

}  // namespace rondo
