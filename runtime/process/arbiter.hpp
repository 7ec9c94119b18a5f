// Decides which host continues a run when the hosts have lost each other. All hosts see one folder;
// each name in it can be created once. docs/protocol/succession.md, "The supervisor's host is
// gone".
//
//   SAVE/.succession/RUN-ID/round-3           the winner of round 3
//                           round-3.resigned  the winner does not lead: round 4 is open
//                           by-TOKEN          file of one contender, linked to the names it wins
//
// Processes that believe the others gone compete in the same round. The winner tells all processes
// that it reaches the number of the next round. A process with an older number has lost already.
//   ARBITER-1  A round has one winner.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace troupe::runtime {

struct contender {
  std::string token;  ///< identifies the run's folder on its host
  std::string text;   ///< a clause: "host 'a' leads this run, in '/runs/r'"
  bool is_end() const { return token.ends_with(".end"); }  ///< means: the run has ended
  /// The text may differ: a folder can be moved.
  friend bool operator==(const contender& a, const contender& b) { return a.token == b.token; }
};

/// The contender of a run's folder on this host. Throws io_error.
contender contender_of(const std::filesystem::path& run);

/// Any thread. Every call may block on a shared file system.
class arbiter {
 public:
  /// `save`: absolute path, the run's checkpoint folder.
  arbiter(const std::filesystem::path& save, const std::string& run_id);

  const std::filesystem::path& folder() const { return folder_; }

  /// Called by the run's first supervisor, which holds the first round. Throws io_error.
  void open(const contender& who) const;
  /// Removes the entries of earlier runs; their remaining processes have then lost. Called by the
  /// first supervisor when it holds the folder's lock and has reached all nodes.
  void forget_others() const;
  /// Called by a process that may compete later. Creates the file that `claim` links, so that a
  /// full disk does not stop it then, and checks that names can be created. Throws io_error.
  void prepare(const contender& who) const;
  /// Whether this host sees the folder.
  bool is_seen() const;
  /// Whether the folder existed and was removed, for example by a new run.
  bool is_replaced() const;
  /// Returns true when contender `who` has won that round, now or before. Links a complete file by
  /// link(2), which is atomic on NFS as well. Throws io_error when the result is unknown.
  bool claim(std::uint32_t round, const contender& who) const;
  /// Empty if there is no winner yet. Throws io_error when unknown, for example when the folder is
  /// gone.
  std::optional<contender> winner(std::uint32_t round) const;
  /// Like `winner`, past this host's cache of the shared folder.
  std::optional<contender> winner_now(std::uint32_t round) const;
  /// The winner of the newest round; empty if it has resigned. Past the cache as well.
  std::optional<contender> leader() const;
  /// Called by a winner that will never lead. Throws io_error.
  void resign(std::uint32_t round, const contender& who) const;
  /// Resigns all rounds from `first` on that `who` has won.
  void resign_all(std::uint32_t first, const contender& who) const;
  /// The first round from `first` on without a resignation.
  std::uint32_t open_round(std::uint32_t first) const;
  /// Called by the leader when the run has ended: takes the next round, so that no host continues
  /// the run. Returns false when another contender leads. Throws io_error.
  bool end(const contender& by) const;
  /// Removes the folder. Called by the leader at the end of a run that no other host has led.
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
