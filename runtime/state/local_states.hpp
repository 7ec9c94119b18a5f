// Snapshots of another process's ranks on a local disk. A keeper writes the states that it has in
// memory every few steps. They are used if a process dies together with its keeper, or if all
// processes die and the run is started again.
//
//   FOLDER/process-0/step-0000042/manifest.json    what is here, with hashes
//                                 rank-00001.state the arrays of a rank, one after the other
//                    .step-0000042.partial         being written
//          .process-0.lock                         held by the writer
//
// docs/formats/local_states.md defines the bytes. The folder keeps the two newest steps of each
// process, and the newest step that all processes have.
//
//   LOCAL-1  A folder with the name of a step is complete and durable: it is written under another
//            name, synced and renamed.
//   LOCAL-2  A state that does not match its hashes is not used: it is removed, and a warning
//            logged.
//   LOCAL-3  A failing, slow or missing disk delays nothing: each process writes one step at a time
//            and skips steps that come meanwhile.
//   LOCAL-4  Once all processes of a run have written the same step, their folders always have one
//            step in common. It is removed when all have a later one
//            (actors/supervisor/storing.cpp).

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/state/rank_estate.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

/// A step with the states of all ranks of a process.
struct stored_step {
  int process = 0;
  std::uint64_t iteration = 0;
  /// Digests per rank of the parameters for which it accounts.
  std::map<int, std::map<std::string, digest>> own = {};
};

struct step_to_store {
  int process = 0;
  std::uint64_t iteration = 0;
  std::map<int, std::shared_ptr<const rank_state>> states = {};  ///< by rank; not modified
  std::uint64_t common = 0;  ///< a step that must also stay (LOCAL-4); 0: none
};

/// Thread-safe.
class local_states {
 public:
  /// Reads the manifests that earlier processes left. Ignores steps that other processes are
  /// writing. Logs a warning for an unreadable folder and treats it as empty.
  explicit local_states(std::filesystem::path folder);
  /// Cancels a pending write. If the disk hangs, only its thread stays.
  ~local_states();
  local_states(const local_states&) = delete;
  local_states& operator=(const local_states&) = delete;

  /// Writes on a separate thread and returns at once (LOCAL-3). Does nothing if this process has
  /// already written that step.
  void store(step_to_store x);
  /// The step that is queued or being written.
  std::optional<std::uint64_t> storing(int process) const;
  /// Steps written by this process and still present; ascending. Does not access the disk.
  std::vector<std::uint64_t> written(int process) const;
  /// Blocks until all queued steps are written or have failed; for tests that look at the folder.
  void finish();

  /// All complete steps, ascending, as described by their manifests. Checks that each still exists.
  std::vector<stored_step> complete() const;

  /// Verifies the hashes. Throws input_error if the state is missing or damaged (LOCAL-2).
  rank_state read(int process, int rank, std::uint64_t iteration);

  const std::filesystem::path& folder() const;

 private:
  struct shared;
  std::shared_ptr<shared> shared_;
};

/// The subfolder for the states of a run in a folder that several runs share. Runs with the same
/// identity and save folder share a subfolder.
std::filesystem::path local_folder_of(const std::filesystem::path& folder,
                                      const std::string& identity,
                                      const std::string& save);

}  // namespace troupe::runtime
