// Which process hosts which rank, and who keeps a copy of whose state.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

/// Ranks [0, world) of the mesh in `processes` stretches of contiguous ranks, as equal as they can
/// be: neighbours on the axes that exchange most stand in one process.
class process_map {
 public:
  process_map(int world, int processes) : world_(world), processes_(processes) {}

  int processes() const { return processes_; }
  int process_of(int rank) const { return int((std::int64_t(rank + 1) * processes_ - 1) / world_); }
  /// Its first rank, and one past its last.
  int first_of(int process) const { return int(std::int64_t(process) * world_ / processes_); }
  int end_of(int process) const { return first_of(process + 1); }

 private:
  int world_, processes_;
};

/// For each process the one that keeps the states of its ranks: another one, on another host where
/// there is one, and each keeps as few as can be. `hosts`: of each process, by name, or whatever is
/// equal for those of one host. Empty for one process: there is no other.
std::vector<int> keepers_of(const std::vector<std::string>& hosts);

/// The same when processes stand on other hosts than `before` was settled for: as few go to another
/// keeper as can be so that no more are kept on their own host than have to be; all stay where
/// nothing is won. `before` may be empty.
std::vector<int> keepers_again(const std::vector<int>& before,
                               const std::vector<std::string>& hosts);

}  // namespace troupe::runtime
