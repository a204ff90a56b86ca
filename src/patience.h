// The one policy of waiting: spin a little, then let others run, then sleep. Where ranks outnumber cores
// spinning only keeps the one away for whom one waits. So it does where two ranks stand on one core though
// another is free: that shows, for who is waited for comes as soon as one gives way, and then one spins less.
#pragma once

#include <sched.h>

#include <algorithm>

namespace rondo {

class Patience {
 public:
  // Whether those who are waited for have a core at the moment, as far as one can know: then it is worth some
  // microseconds of spinning even where ranks outnumber cores.
  enum class Others { may_wait, run };

  explicit Patience(bool oversubscribed, Others others = Others::may_wait)
      : learns_(!oversubscribed),
        spins_(!oversubscribed         ? worth().spins
               : others == Others::run ? 300
                                       : 0),
        yields_(oversubscribed ? 20 : 50 + (most_spins - spins_) / spins_a_yield) {}
  ~Patience() { learn(); }
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  void reset() {
    learn();
    idle_ = 0;
  }
  bool worn_out() const { return idle_ >= spins_ + yields_; }
  void relax() {
    if (idle_++ < spins_)
      pause_cpu();
    else
      ::sched_yield();
  }

  // How many waits of this thread in a row have ended as soon as it gave way.
  static int ended_by_giving_way() { return worth().ended_by_giving_way; }

  static constexpr int most_spins = 2000, least_spins = 30;

 private:
  // Of this thread, as its last waits have shown.
  struct Worth {
    int spins = most_spins;
    int ended_by_giving_way = 0;
  };
  static Worth& worth() {
    static thread_local Worth worth;
    return worth;
  }

  void learn() const {
    if (!learns_ || idle_ == 0) return;
    const int yields = idle_ - spins_;
    if (yields > yields_to_switch) return;
    Worth& worth = Patience::worth();
    if (yields > 0) {
      worth.spins = std::max(least_spins, spins_ / 2);
      ++worth.ended_by_giving_way;
    } else {
      worth.spins = std::min(most_spins, spins_ * 2);
      worth.ended_by_giving_way = 0;
    }
  }

  static void pause_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr int yields_to_switch = 2;  // as long as it takes another rank on the core to run
  static constexpr int spins_a_yield = 40;    // that last as long, where nobody else wants the core

  bool learns_;
  int spins_, yields_, idle_ = 0;
};

}  // namespace rondo
