// A device made of the host's memory and threads, for tests on machines without one. As on a GPU, the host
// cannot touch its memory (it has no access to the addresses), streams are one after another and among each
// other at once, functions of the host run on one thread for all streams, memory of other processes is opened
// by a handle, and never what is one's own, an address is used again as soon as it is free, and pinned memory
// has another address for kernels than for the host.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "src/device.h"
#include "src/fd.h"

namespace rondo::test {

// Make it in the process that uses it: a fork does not take threads along.
class StandInDevice : public Device {
 public:
  StandInDevice();
  ~StandInDevice() override;

  int count() const override { return 1; }
  void choose(int which) override;
  DeviceIdentity identity() const override { return {}; }
  std::optional<DeviceAllocation> allocation_of(const void* pointer) const override;
  std::byte* allocate(std::size_t bytes) override;
  void free(std::byte* memory) override;
  std::optional<DeviceMemoryHandle> handle_of(DeviceStream stream,
                                              const DeviceAllocation& allocation) override;
  std::byte* open(DeviceStream stream, const DeviceMemoryHandle& handle) override;
  void close(DeviceStream stream, std::byte* base) override;

  DeviceContext context_of(DeviceStream stream) const override;
  void enter(DeviceContext context) override;
  void leave() override;
  DeviceStream make_stream() override;
  void destroy_stream(DeviceStream stream) override;
  void pin(DeviceStream stream, std::span<std::byte> memory) override;
  void unpin(DeviceStream stream, std::byte* memory) override;
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) override;
  std::byte* address_of_pinned(DeviceStream stream, const std::byte* memory) const override;
  void clear(DeviceStream stream, std::byte* memory, std::size_t bytes) override;
  bool has_jobs(DeviceStream stream, const DeviceAllocation& allocation) const override;
  bool reaches(DeviceStream stream, const DeviceAllocation& allocation) override {
    return has_jobs(stream, allocation);
  }
  void do_job(DeviceStream stream, const device::Job* job, int blocks) override;
  void call_host(DeviceStream stream, std::function<void()> body) override;
  void wait_for_word(DeviceStream stream, const std::uint32_t* word, std::uint32_t value) override;
  bool is_recorded(DeviceStream stream) const override;
  DeviceStream companion_of(DeviceStream stream) override;
  void check(DeviceStream companion) const override;
  void synchronise(DeviceStream stream) override;

  // ---- what a test may do besides ----
  void put(DeviceStream stream, std::function<void()> work);
  // The word's address is as kernels have it.
  void wait_for_word_at(DeviceStream stream, const std::byte* word, std::uint32_t value);
  // Where work on streams finds what is at an address of the device's memory.
  std::byte* alias_of(const std::byte* data) const { return reachable(data, 1); }
  // A stream by a name of the test's choice, as an address may be.
  void make_stream(DeviceStream name);
  // From now on streams record what is put on them.
  void record(bool recorded) { recorded_ = recorded; }
  // Whether check() waits from now on, as if the program were in the driver.
  void hold_checks(bool held) { checks_held_ = held; }
  // Whether has_jobs(), open() and close() do.
  void hold_driver(bool held) { driver_held_ = held; }
  // Jobs take so long from now on, before they do anything.
  void slow_jobs_down(std::chrono::milliseconds time) { job_time_ = time; }
  // From now on there are none.
  void have_no_jobs() { has_jobs_ = false; }
  int jobs_begun() const { return jobs_begun_; }  // that have something to do
  // Of the job that was put on a stream last.
  int blocks_of_last_job() const { return blocks_of_last_job_; }
  // From now on nothing works, and what stands on streams is not run.
  void break_down() { broken_ = true; }
  // open() says "not now" from now on where what is open here stands, or stood, at the same address of its
  // owner, as some drivers do.
  void open_each_address_once() { opens_each_address_once_ = true; }
  // What is refused from now on.
  enum class Refused { nothing, copy, wait_late, allocate, open, job };  // wait_late: after 100 ms
  void refuse(Refused what) { refused_ = what; }
  // How much memory there is from now on.
  void hold_at_most(std::size_t bytes) { most_bytes_ = bytes; }
  std::size_t pinned_count() const;
  // How often memory was unpinned while a stream waited at a word: a driver may wait for that stream then.
  int unpinned_while_waiting() const { return unpinned_while_waiting_; }
  int closed_while_waiting() const { return closed_while_waiting_; }  // the same of what was open
  // How often memory was freed while another process had it open.
  int freed_while_open() const { return freed_while_open_; }
  std::size_t open_count() const;       // memory of other processes that is open
  std::size_t allocated_bytes() const;  // by this process

 protected:
  // Whether a job that was started in the context may touch the allocation, where some may not touch all.
  virtual bool may_touch(DeviceContext, const std::byte* /*base*/) const { return true; }

 private:
  class Queue;
  // Of another process, where it lies there.
  struct Home {
    std::int64_t process;
    std::uint64_t address;
    bool operator==(const Home&) const = default;
  };
  struct Memory {
    Fd file;
    std::byte* alias;  // where streams read and write it
    std::size_t bytes;
    std::uint64_t number;
    std::optional<Home> opened;
  };

  std::byte* add(Fd file, std::size_t bytes, const std::optional<Home>& opened);
  bool is_open(const Home& home) const;
  void remove(std::byte* base, bool opened);
  bool is_open_elsewhere(const std::byte* base) const;
  std::byte* reachable(const std::byte* data, std::size_t bytes) const;
  std::byte* reachable_in(DeviceContext context, const std::byte* data, std::size_t bytes) const;
  void do_now(DeviceContext context, const device::Job& job, int blocks) const;
  Queue& queue_of(DeviceStream stream) const;
  void wait_for_driver() const;
  void need_whole() const;
  void need_willing(Refused what) const;

  mutable std::mutex mutex_;
  std::map<const std::byte*, Memory> memories_;  // by base
  std::map<const std::byte*, std::size_t> pinned_;
  std::multimap<std::size_t, std::byte*> free_addresses_;  // by bytes
  std::uint64_t last_number_ = 0;
  // By stream; for default streams null and the context.
  mutable std::map<std::pair<DeviceStream, DeviceContext>, std::unique_ptr<Queue>> queues_;
  std::unique_ptr<Queue> host_functions_;
  std::atomic<bool> recorded_{false}, broken_{false}, checks_held_{false}, driver_held_{false},
      has_jobs_{true}, opens_each_address_once_{false};
  std::atomic<std::chrono::milliseconds> job_time_{};
  mutable std::atomic<int> jobs_begun_{0};
  std::atomic<int> blocks_of_last_job_{0};
  std::atomic<int> waiting_{0}, unpinned_while_waiting_{0}, closed_while_waiting_{0}, freed_while_open_{0};
  std::atomic<Refused> refused_{Refused::nothing};
  std::atomic<std::size_t> most_bytes_{std::numeric_limits<std::size_t>::max()};
};

}  // namespace rondo::test
