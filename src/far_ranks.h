// The ranks on other hosts. What ranks of one host read in their segment (a failure, who has left, who is
// late) these are told in words over the network.
#pragma once

#include <functional>
#include <optional>

#include "src/error.h"
#include "src/hosts.h"
#include "src/network.h"

namespace rondo {

class FarRanks {
 public:
  // `failed`: what to do when another host tells of a failure.
  using Failed = std::function<void(int rank, const Error& error)>;
  FarRanks(Network& network, const Hosts& hosts, int rank, Failed failed);

  // This rank has come to its call number `sequence`.
  void begin(std::uint64_t sequence) { begun_ = sequence; }
  void tell_failure(const Error& error);
  // A rank that closed its connections while data wait to be read at the other end could take them back. So
  // whoever leaves says so to all that it knows, and goes when they have answered: they have read all there
  // was. False: this rank has said it before.
  bool say_goodbye();
  // moved: whether anything happened.
  bool all_have_answered(bool& moved);

  // Throws when transfers with a rank that is lost, or has left, can never end.
  void need_reachable();

  // Asks everybody how far they are: some time before a call's deadline, so that they can answer.
  void call_the_roll();
  // Those who have answered, and have not come to call number `sequence`.
  std::vector<int> late(std::uint64_t sequence) const;
  // What to say of those who have not answered. Empty: there are none.
  std::string silent() const;

 private:
  enum class Kind : std::uint32_t { failure, goodbye, farewell, question, answer };

  // A word's first bytes; a failure's text follows.
  struct Word {
    Kind kind;
    std::uint32_t error;     // a failure's ErrorKind
    std::uint64_t sequence;  // an answer: the last call its sender has come to
  };

  // What this rank knows of another.
  struct Rank {
    bool left = false;
    bool bade_farewell = false;  // has answered our goodbye
    bool asked = false;
    std::optional<std::uint64_t> answer;
  };

  void hear(int from, Bytes bytes);
  void tell(int peer, const Word& word, const std::string& text = "");
  template <typename Visit>
  void each(Visit visit) const;
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  Network& network_;
  const Hosts& hosts_;
  int rank_;
  Failed failed_;
  std::vector<Rank> ranks_;
  std::uint64_t begun_ = 0;
  bool gone_ = false;  // this rank has left
};

}  // namespace rondo
