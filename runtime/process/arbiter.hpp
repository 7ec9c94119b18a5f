// Who goes on with a run when hosts have lost each other: a folder that all of them see decides, by
// names that can be given once. docs/protocol/succession.md, "The supervisor's host is gone".
//
//   SAVE/.succession/RUN-ID/round-3           who has won the third round
//                           round-3.resigned  it does not lead, and will not: the fourth is open
//                           by-TOKEN          the contender of that token, to which names are given
//
// In a round those compete who each think that the others are gone. Who wins tells all whom it
// still reaches the number of the next; who was told another number has lost before it began.
//
//   ARBITER-1  A round has one winner.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct contender {
  std::string token;  ///< of the run's folder on its host: no other folder has the same
  std::string text;   ///< a clause: "host 'a' goes on with this run, in '/runs/r'"
  bool is_end() const { return token.ends_with(".end"); }  ///< nobody does: the run has ended
  /// Whatever its folder is called.
  friend bool operator==(const contender& a, const contender& b) { return a.token == b.token; }
};

/// Of the processes of the run in that folder, on this host. Throws io_error.
contender contender_of(const std::filesystem::path& run);

/// Any thread. All of it blocks for a file system that several hosts share.
class arbiter {
 public:
  /// `save`: absolute, the run's folder of checkpoints.
  arbiter(const std::filesystem::path& save, const std::string& run_id);

  const std::filesystem::path& folder() const { return folder_; }

  /// By the run's first supervisor, who holds the first round. Throws io_error.
  void open(const contender& who) const;
  /// By the same, who has the folder's lock, and all nodes: what runs before this one have left is
  /// removed, and whoever still goes on with one of them has lost.
  void forget_others() const;
  /// By who may compete later: makes what `claim` needs, so that a full disk does not refuse it
  /// then, and tries whether names can be given there. Throws io_error.
  void prepare(const contender& who) const;
  /// Whether this host sees it.
  bool is_seen() const;
  /// It was there, and somebody has removed it, as another run that has begun.
  bool is_replaced() const;
  /// True: `who` has won that round, now or before. By link(2), which is atomic on NFS, too, of a
  /// file that is complete. Throws io_error: nobody knows.
  bool claim(std::uint32_t round, const contender& who) const;
  /// Nothing: nobody yet. Throws io_error: nobody knows, as where the folder is gone.
  std::optional<contender> winner(std::uint32_t round) const;
  /// The same, not from what this host remembers of a folder that others write.
  std::optional<contender> winner_now(std::uint32_t round) const;
  /// The winner of the newest round; nothing: it has resigned. The same.
  std::optional<contender> leader() const;
  /// By its winner, who does not lead and will not. Throws io_error.
  void resign(std::uint32_t round, const contender& who) const;
  /// Of all rounds from that one on that it has won.
  void resign_all(std::uint32_t first, const contender& who) const;
  /// The first, from that one on, that nobody has resigned.
  std::uint32_t open_round(std::uint32_t first) const;
  /// By who leads: the run has ended, and nobody goes on with it, as the next round is taken.
  /// False: another one leads. Throws io_error.
  bool end(const contender& by) const;
  /// By who leads a run that was never led from elsewhere, when it ends.
  void remove() const;

 private:
  std::filesystem::path file_of(std::uint32_t round) const;
  std::filesystem::path prepared_of(const contender& who) const;
  std::filesystem::path aside() const;
  int give_name(const std::filesystem::path& name, const contender& who) const;
  [[noreturn]] void refuse(const std::filesystem::path& name, int failure) const;

  std::filesystem::path folder_;
};

}  // namespace troupe::runtime
