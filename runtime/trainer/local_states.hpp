// States of another process's ranks on a disk of this host: what a keeper has in memory, every so
// many steps, for the case that the process and its keeper die together, or all there is, and the
// run is started again.
//
//   FOLDER/process-0/step-0000042/manifest.json    what is here, with hashes
//                                 rank-00001.state the arrays of a rank, one after the other
//                    .step-0000042.partial         being written
//          .process-0.lock                         held by who writes there
//
// docs/formats/local_states.md has the bytes. The two newest steps of each process are kept there,
// and the newest that all processes have.
//
//   LOCAL-1  A folder that has the name of a step is complete and durable: it is written aside,
//            synced and renamed.
//   LOCAL-2  What has not its hashes is used by nobody: it is removed, and told.
//   LOCAL-3  A disk that refuses, is slow or is gone delays nobody: of each process one step is
//            written at a time, and what comes meanwhile is left out.
//   LOCAL-4  The steps that the processes of a run have there have one in common, from the first
//            one on that all have written: it is removed when all have a later one
//            (actors/supervisor/storing.cpp).

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/trainer/rank_estate.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A step of which the states of all ranks of a process are there.
struct stored_step {
  int process = 0;
  std::uint64_t iteration = 0;
  /// By rank: the digests of what it answers for.
  std::map<int, std::map<std::string, digest>> own = {};
};

struct step_to_store {
  int process = 0;
  std::uint64_t iteration = 0;
  std::map<int, std::shared_ptr<const rank_state>> states = {};  ///< by rank; they stay as they are
  std::uint64_t common = 0;  ///< a step that stays, too (LOCAL-4); 0: none
};

/// Any thread.
class local_states {
 public:
  /// Looks what an earlier process has left there: manifests alone. What a process beside this one
  /// is writing stays as it is. A folder that cannot be read holds nothing, and a warning says so.
  explicit local_states(std::filesystem::path folder);
  /// What is being written is given up. A disk that hangs keeps its thread, and nobody else.
  ~local_states();
  local_states(const local_states&) = delete;
  local_states& operator=(const local_states&) = delete;

  /// By a thread of its own; returns at once. LOCAL-3. Nothing where this process has written that
  /// step already.
  void store(step_to_store x);
  /// What was asked for and is not written yet, or refused.
  std::optional<std::uint64_t> storing(int process) const;
  /// By this process, and not removed by it: ascending. Looks at no disk.
  std::vector<std::uint64_t> written(int process) const;
  /// What was asked for is written, or refused: for who looks at the folder.
  void finish();

  /// Ascending; of steps that were not read yet only what their manifests say. Each is
  /// looked for again: it may have been removed since.
  std::vector<stored_step> complete() const;

  /// Verified against its hashes. Throws input_error: it is not there, or LOCAL-2.
  rank_state read(int process, int rank, std::uint64_t iteration);

  const std::filesystem::path& folder() const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

/// Where the states of a run lie below a folder that several runs may use: two runs that save in
/// one folder, or compute the same, are the same.
std::filesystem::path local_folder_of(const std::filesystem::path& folder,
                                      const std::string& identity,
                                      const std::string& save);

}  // namespace troupe::runtime
