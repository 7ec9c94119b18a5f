// What the launcher of a cluster says to a process by environment variables: its rank, the number
// of processes, the hosts, and where they meet.
//
//   srun      SLURM_* of a step (srun(1), "output environment variables")
//   mpiexec   PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH's Hydra)
//   mpirun    OMPI_COMM_WORLD_*, PMIX_RANK, PMIX_NAMESPACE (Open MPI); they name no other host
//   torchrun  RANK, WORLD_SIZE, LOCAL_*, TORCHELASTIC_*; MASTER_ADDR and MASTER_PORT also count
//             with the other launchers
//
// The innermost launcher decides (LAUNCH-1). An outer one starts it once on each host, as Slurm
// starts the daemons of mpirun.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct launch_environment {
  std::string launcher;  ///< "srun"; empty: a batch script of Slurm, with one process
  int rank = 0, world = 1;
  std::optional<int> local_rank;    ///< rank among the processes of this host
  std::optional<int> local_world;   ///< processes of this host
  std::vector<std::string> hosts;   ///< in order; empty: not told
  std::optional<int> node;          ///< number of this host in `hosts`
  std::vector<int> tasks;           ///< processes of each of `hosts`
  std::string domain;               ///< this host's leaf switch or block; empty: not told
  std::string address;              ///< host of the rendezvous; empty: not told
  std::uint16_t port = 0;           ///< port of the rendezvous; 0: not told
  std::string id;                   ///< equal in all processes; empty: not told
  int restarts = 0;                 ///< by all launchers together
  std::optional<std::int64_t> end;  ///< when Slurm ends the job: seconds since 1970
};

/// Returns the value of an environment variable, or null.
using variable_reader = std::function<const char*(const char* name)>;

/// Empty without a launcher. Throws input_error with the variable and what to do, if one is
/// malformed or missing, or if two contradict each other.
std::optional<launch_environment> launch_environment_of(const variable_reader& read);

}  // namespace troupe::runtime
