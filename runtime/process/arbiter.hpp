// Who goes on with a run when hosts have lost each other: a folder that all of them see decides, by
// files that can be made once. docs/protocol/succession.md, "The supervisor's host is gone".
//
//   SAVE/.succession/RUN-ID/round-3     who has won the third round
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

/// Any thread.
class arbiter {
 public:
  /// `save`: absolute, the run's folder of checkpoints.
  arbiter(const std::filesystem::path& save, const std::string& run_id);

  const std::filesystem::path& folder() const { return folder_; }

  /// By the run's first supervisor, who holds the first round. Throws io_error.
  void open() const;
  /// Whether this host sees it.
  bool is_seen() const;
  /// True: `who` has won that round, now or before. open(2) with O_EXCL, which is atomic on NFS
  /// from version 3 on. Throws io_error: nobody knows.
  bool claim(std::uint32_t round, const std::string& who) const;
  /// Empty: nobody yet, or it cannot be read.
  std::string winner(std::uint32_t round) const;
  /// The run has ended.
  void remove() const;

 private:
  std::filesystem::path file_of(std::uint32_t round) const;

  const std::filesystem::path folder_;
};

/// Of a process of the run in that folder, on this host.
std::string contender(const std::filesystem::path& run);

}  // namespace troupe::runtime
