// Who goes on with a run when hosts have lost each other: a folder that all of them see decides, by
// files that can be made once. docs/protocol/succession.md, "The supervisor's host is gone".
//
//   SAVE/.succession/RUN-ID/round-3           who has won the third round
//                           round-3.resigned  it could not go on: the fourth is open
//
// In a round those compete who each think that the others are gone. Who wins tells all whom it
// still reaches the number of the next; who was told another number has lost before it began.
//
//   ARBITER-1  A round has one winner.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Any thread. All of it blocks for a file system that several hosts share.
class arbiter {
 public:
  /// `save`: absolute, the run's folder of checkpoints.
  arbiter(const std::filesystem::path& save, const std::string& run_id);

  const std::filesystem::path& folder() const { return folder_; }

  /// By the run's first supervisor, who holds the first round, and the folder's lock: what runs
  /// before this one have left is removed. Throws io_error.
  void open(const std::string& who) const;
  /// Whether this host sees it.
  bool is_seen() const;
  /// True: `who` has won that round, now or before. By link(2), which is atomic on NFS, too, of a
  /// file that is complete. Throws io_error: nobody knows.
  bool claim(std::uint32_t round, const std::string& who) const;
  /// Empty: nobody yet. Throws io_error: nobody knows, as where the folder is gone.
  std::string winner(std::uint32_t round) const;
  /// By its winner, who does not lead and will not. Throws io_error.
  void resign(std::uint32_t round) const;
  /// The first, from that one on, that nobody has resigned.
  std::uint32_t open_round(std::uint32_t first) const;
  /// By who leads a run that was never led from elsewhere, when it ends.
  void remove() const;

 private:
  std::filesystem::path file_of(std::uint32_t round) const;
  void write_aside(const std::filesystem::path& file, const std::string& text) const;

  std::filesystem::path folder_;
};

/// Of the processes of the run in that folder, on this host: no other folder has the same. Throws
/// io_error.
std::string contender(const std::filesystem::path& run);

}  // namespace troupe::runtime
