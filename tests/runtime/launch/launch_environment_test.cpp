#include "runtime/launch/launch_environment.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>
#include <string>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

using settings = std::map<std::string, std::string>;

std::optional<launch_environment> read(const settings& all) {
  return launch_environment_of([&](const char* name) {
    const auto at = all.find(name);
    return at == all.end() ? nullptr : at->second.c_str();
  });
}

void refused(const settings& all, const std::string& because) {
  INFO(because);
  CHECK_THROWS_MATCHES(read(all), input_error, MessageMatches(ContainsSubstring(because)));
}

/// `all` with the values of `changed`; an empty value counts as not set.
settings with(settings all, const settings& changed) {
  for (const auto& [name, value] : changed)
    all[name] = value;
  return all;
}

/// A script of sbatch --nodes 2 --ntasks 6: its own process has the numbers of a first task, too.
const settings batch = {{"SLURM_JOB_ID", "4242"},
                        {"SLURM_JOB_NODELIST", "gpu[003-004]"},
                        {"SLURM_JOB_NUM_NODES", "2"},
                        {"SLURM_NNODES", "2"},
                        {"SLURM_NTASKS", "6"},
                        {"SLURM_NPROCS", "6"},
                        {"SLURM_TASKS_PER_NODE", "3(x2)"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "0"},
                        {"SLURM_JOB_END_TIME", "1796000000"}};

/// The fifth of six tasks of srun in that script.
const settings task = with(batch,
                           {{"SLURM_STEP_ID", "0"},
                            {"SLURM_STEPID", "0"},
                            {"SLURM_STEP_NODELIST", "gpu[003-004]"},
                            {"SLURM_STEP_NUM_NODES", "2"},
                            {"SLURM_STEP_NUM_TASKS", "6"},
                            {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"},
                            {"SLURM_LAUNCH_NODE_IPADDR", "10.1.0.3"},
                            {"SLURM_PROCID", "4"},
                            {"SLURM_LOCALID", "1"},
                            {"SLURM_NODEID", "1"}});

/// The second of two daemons that mpirun in a script of three hosts starts with srun.
const settings daemon_task = with(batch,
                                  {{"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NODELIST", "gpu[004-005]"},
                                   {"SLURM_STEP_NUM_TASKS", "2"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                                   {"SLURM_NTASKS", "2"},
                                   {"SLURM_PROCID", "1"},
                                   {"SLURM_NODEID", "1"}});

/// Rank 5 of mpirun -n 8 over two hosts, Open MPI 5.
const settings open_mpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                           {"OMPI_COMM_WORLD_SIZE", "8"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                           {"OMPI_COMM_WORLD_NODE_RANK", "1"},
                           {"OMPI_UNIVERSE_SIZE", "8"},
                           {"PMIX_NAMESPACE", "prterun-gpu003-812@1"},
                           {"PMIX_RANK", "5"},
                           {"PMIX_SERVER_URI41", "prterun-gpu003-812@0.1;tcp4://10.1.0.4:33719"}};

/// Rank 3 of torchrun --nnodes 2 --nproc-per-node 2.
const settings torch = {{"RANK", "3"},
                        {"WORLD_SIZE", "4"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"GROUP_RANK", "1"},
                        {"GROUP_WORLD_SIZE", "2"},
                        {"ROLE_RANK", "3"},
                        {"ROLE_WORLD_SIZE", "4"},
                        {"MASTER_ADDR", "gpu003.cluster"},
                        {"MASTER_PORT", "29500"},
                        {"TORCHELASTIC_RESTART_COUNT", "2"},
                        {"TORCHELASTIC_MAX_RESTARTS", "3"},
                        {"TORCHELASTIC_RUN_ID", "mine"},
                        {"TORCHELASTIC_USE_AGENT_STORE", "False"}};

}  // namespace

TEST_CASE("an environment without a launcher says nothing", "[launch]") {
  CHECK_FALSE(read({}));
  CHECK_FALSE(read({{"HOME", "/home/a"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "a"}}));
  CHECK_FALSE(read({{"RANK", ""}, {"SLURM_JOB_ID", ""}, {"OMPI_COMM_WORLD_RANK", ""}}));
}

TEST_CASE("a task of srun knows its rank, the hosts, and where to meet", "[launch]") {
  const auto x = read(task).value();
  CHECK(x.launcher == "srun");
  CHECK(x.rank == 4);
  CHECK(x.world == 6);
  CHECK(x.local_rank == 1);
  CHECK(x.local_world == 3);
  CHECK(x.node == 1);
  CHECK(x.hosts == std::vector<std::string>{"gpu003", "gpu004"});
  CHECK(x.tasks == std::vector{3, 3});
  CHECK(x.domain.empty());
  CHECK(x.address == "gpu003");
  CHECK(x.port == 15000 + 4242);
  CHECK(x.id == "4242.0");
  CHECK(x.restarts == 0);
  CHECK(x.end == 1796000000);
  CHECK(read(with(task, {{"SLURM_RESTART_COUNT", "2"}}))->restarts == 2);
}

TEST_CASE("hosts of a step may have different numbers of tasks", "[launch]") {
  const auto x = read(with(task,
                           {{"SLURM_STEP_NODELIST", "gpu[003-005]"},
                            {"SLURM_STEP_NUM_TASKS", "5"},
                            {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                            {"SLURM_NODEID", "2"},
                            {"SLURM_LOCALID", "0"}}))
                     .value();
  CHECK(x.tasks == std::vector{2, 2, 1});
  CHECK(x.local_world == 1);
}

TEST_CASE("the failure domain of a task is its leaf switch, if Slurm tells switches", "[launch]") {
  const auto domain = [](const char* address, const char* pattern) {
    return read(with(task,
                     {{"SLURM_TOPOLOGY_ADDR", address}, {"SLURM_TOPOLOGY_ADDR_PATTERN", pattern}}))
        ->domain;
  };
  CHECK(domain("s0.s2.gpu004", "switch.switch.node") == "s0.s2");
  CHECK(domain("gpu004", "node") == "");
}

TEST_CASE("jobs with near numbers and steps of one job meet at different ports", "[launch]") {
  const auto port = [](const char* job, const char* step) {
    return read(with(task, {{"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}}))->port;
  };
  CHECK(port("4243", "0") == port("4242", "0") + 1);
  CHECK(port("4242", "1") == port("4242", "0") + 997);
  CHECK(port("14999", "0") == 29999);
  CHECK(port("67043328", "0") == 15000 + 67043328 % 15000);
  CHECK(port("4294967295", "0") == 15000 + 4294967295 % 15000);  // of a federation
}

TEST_CASE("a batch script of Slurm is one process, with the end of its job", "[launch]") {
  const auto x = read(with(batch, {{"SLURM_RESTART_COUNT", "1"}})).value();
  CHECK(x.launcher.empty());
  CHECK(x.world == 1);
  CHECK(x.hosts.empty());
  CHECK(x.address.empty());
  CHECK(x.id == "4242");
  CHECK(x.restarts == 1);
  CHECK(x.end == 1796000000);
}

TEST_CASE("a process of Open MPI's mpirun knows its rank", "[launch]") {
  const auto x = read(open_mpi).value();
  CHECK(x.launcher == "mpirun");
  CHECK(x.rank == 5);
  CHECK(x.world == 8);
  CHECK(x.local_rank == 1);
  CHECK(x.local_world == 4);
  CHECK_FALSE(x.node);
  CHECK(x.address.empty());
  CHECK(x.id == "prterun-gpu003-812@1");
  CHECK_FALSE(x.end);
}

TEST_CASE("processes of mpirun on one host meet there", "[launch]") {
  auto all = with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}});
  const auto x = read(all).value();
  CHECK(x.address == "127.0.0.1");
  CHECK(x.port >= 15000);
  CHECK(x.port < 30000);
  CHECK(read(with(all, {{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}))->port == x.port);
  CHECK(read(with(all, {{"PMIX_NAMESPACE", "prterun-gpu003-813@1"}}))->port != x.port);
  CHECK(read(with(all, {{"PMIX_NAMESPACE", ""}}))->address.empty());
}

TEST_CASE("a process of MPICH's mpiexec knows its rank", "[launch]") {
  const auto x = read({{"PMI_RANK", "1"},
                       {"PMI_SIZE", "2"},
                       {"PMI_FD", "9"},
                       {"MPI_LOCALNRANKS", "2"},
                       {"MPI_LOCALRANKID", "1"}})
                     .value();
  CHECK(x.launcher == "mpiexec");
  CHECK(x.rank == 1);
  CHECK(x.world == 2);
  CHECK(x.local_rank == 1);
  CHECK(x.local_world == 2);
  CHECK(x.address.empty());
}

TEST_CASE("a worker of torchrun knows its rank and where to meet", "[launch]") {
  const auto x = read(torch).value();
  CHECK(x.launcher == "torchrun");
  CHECK(x.rank == 3);
  CHECK(x.world == 4);
  CHECK(x.local_rank == 1);
  CHECK(x.local_world == 2);
  CHECK(x.hosts.empty());
  CHECK(x.address == "gpu003.cluster");
  CHECK(x.port == 29500);
  CHECK(x.id == "mine");
  CHECK(x.restarts == 2);
  // The agent of torchrun listens at MASTER_PORT.
  CHECK(read(with(torch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->port == 29501);
  CHECK(read(with(torch, {{"MASTER_PORT", "65535"}}))->port == 65535);
}

TEST_CASE("another program may set torchrun's four variables", "[launch]") {
  const auto x
      = read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1"}})
            .value();
  CHECK(x.world == 2);
  CHECK_FALSE(x.local_rank);
  CHECK(x.address == "::1");
}

TEST_CASE("LAUNCH-1: the innermost of nested launchers decides", "[launch]") {
  SECTION("mpirun in a batch script, on the host of the script") {
    const auto x = read(with(batch, open_mpi)).value();
    CHECK(x.launcher == "mpirun");
    CHECK(x.rank == 5);
    CHECK(x.world == 8);
    CHECK(x.end == 1796000000);
  }
  SECTION("mpirun in a batch script, on a host where srun started its daemon") {
    const auto x = read(with(daemon_task, open_mpi)).value();
    CHECK(x.launcher == "mpirun");
    CHECK(x.rank == 5);
    CHECK(x.world == 8);
    CHECK(x.address.empty());
    CHECK(x.end == 1796000000);
  }
  SECTION("torchrun as one task of srun on each host") {
    const auto x = read(with(with(daemon_task, torch), {{"SLURM_RESTART_COUNT", "1"}})).value();
    CHECK(x.launcher == "torchrun");
    CHECK(x.rank == 3);
    CHECK(x.address == "gpu003.cluster");
    CHECK(x.restarts == 3);
    CHECK(x.end == 1796000000);
  }
  SECTION("torchrun once on each host, where some ranks are those of srun by chance") {
    const auto same = with(torch, {{"RANK", "1"}, {"WORLD_SIZE", "2"}});
    const auto x = read(with(daemon_task, same)).value();
    CHECK(x.launcher == "torchrun");
    CHECK(x.id == "mine");  // as in all other processes
  }
  SECTION("torchrun in a shell of srun --pty with one task") {
    const auto shell = with(daemon_task,
                            {{"SLURM_STEP_NODELIST", "gpu003"},
                             {"SLURM_STEP_NUM_TASKS", "1"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_NODEID", "0"}});
    CHECK(read(with(shell, torch))->launcher == "torchrun");
  }
  SECTION("mpirun in the shell of salloc, which Slurm starts as a step with PMIx") {
    const auto shell = with(batch,
                            {{"SLURM_STEP_ID", "4294967290"},
                             {"SLURM_STEP_NODELIST", "gpu003"},
                             {"SLURM_STEP_NUM_TASKS", "1"},
                             {"SLURM_STEP_TASKS_PER_NODE", "1"},
                             {"PMIX_RANK", "0"}});
    const auto x = read(shell).value();
    CHECK(x.world == 1);
    CHECK(x.id == "4242.4294967290");
    CHECK(read(with(shell, open_mpi))->launcher == "mpirun");
  }
  SECTION("one mpirun in a batch script with one rank") {
    const auto x = read(with(with(batch, open_mpi),
                             {{"OMPI_COMM_WORLD_RANK", "0"},
                              {"OMPI_COMM_WORLD_SIZE", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                              {"PMIX_RANK", "0"}}))
                       .value();
    CHECK(x.launcher == "mpirun");
  }
}

TEST_CASE("LAUNCH-1: nested launchers that start several runs are refused", "[launch]") {
  refused(with(task, open_mpi),
          "this process is rank 4 of 6 by srun, and rank 5 of 8 by mpirun: start this command by "
          "one of them");
  refused(with(task, torch), "rank 4 of 6 by srun, and rank 3 of 4 by torchrun");
  refused(with(open_mpi, torch), "rank 5 of 8 by mpirun, and rank 3 of 4 by torchrun");
}

TEST_CASE("the same rank by two launchers is one launcher", "[launch]") {
  SECTION("srun --mpi=pmi2") {
    const auto x = read(with(task, {{"PMI_RANK", "4"}, {"PMI_SIZE", "6"}})).value();
    CHECK(x.launcher == "srun");
    CHECK(x.address == "gpu003");
  }
  SECTION("srun --mpi=pmix") {
    const auto x = read(with(task, {{"PMIX_RANK", "4"}, {"PMIX_NAMESPACE", "slurm.pmix.4242.0"}}));
    CHECK(x->launcher == "srun");
  }
  SECTION("a script that copies the numbers of srun for torch") {
    const auto x = read(with(task,
                             {{"RANK", "4"},
                              {"WORLD_SIZE", "6"},
                              {"MASTER_ADDR", "gpu003-ib"},
                              {"MASTER_PORT", "6000"}}))
                       .value();
    CHECK(x.launcher == "srun");
    CHECK(x.hosts.size() == 2);
    CHECK(x.address == "gpu003-ib");
    CHECK(x.port == 6000);
  }
}

TEST_CASE("MASTER_ADDR and MASTER_PORT count without RANK", "[launch]") {
  CHECK(read(with(task, {{"MASTER_PORT", "6000"}}))->port == 6000);
  CHECK(read(with(task, {{"MASTER_PORT", "6000"}}))->address == "gpu003");
  CHECK(read(with(task, {{"MASTER_ADDR", "10.1.0.3"}}))->port == 15000 + 4242);
  const auto told = read(with(open_mpi, {{"MASTER_ADDR", "gpu003"}, {"MASTER_PORT", "6000"}}));
  CHECK(told->address == "gpu003");
  CHECK(told->port == 6000);
  CHECK(read(with(batch, {{"MASTER_ADDR", "gpu003"}}))->address.empty());  // for its tasks
  refused(with(open_mpi, {{"MASTER_ADDR", "gpu003"}}),
          "the environment has MASTER_ADDR=gpu003: MASTER_PORT is not set");
}

TEST_CASE("missing variables are named", "[launch]") {
  refused(with(torch, {{"MASTER_ADDR", ""}}),
          "the environment has RANK=3: MASTER_ADDR is not set; give it one value for all ranks");
  refused(with(torch, {{"MASTER_PORT", ""}}), "MASTER_PORT is not set");
  refused(with(torch, {{"WORLD_SIZE", ""}}), "the environment has RANK=3: torchrun sets RANK");
  refused({{"WORLD_SIZE", "4"}}, "the environment has WORLD_SIZE=4: RANK is not set");
  refused({{"OMPI_COMM_WORLD_SIZE", "4"}},
          "OMPI_COMM_WORLD_SIZE=4: mpirun sets OMPI_COMM_WORLD_RANK from 0 to below "
          "OMPI_COMM_WORLD_SIZE; start this command by it, or unset both");
  refused({{"PMI_RANK", "1"}}, "PMI_RANK=1: mpiexec sets PMI_RANK");
  refused({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "x"}}, "PMIX_RANK=1: no launcher has this rank");
  refused(with(batch, {{"PMIX_RANK", "0"}}), "PMIX_RANK=0: no launcher has this rank");
  refused(with(task, {{"SLURM_STEP_NUM_TASKS", ""}}), "SLURM_PROCID=4: srun sets SLURM_PROCID");
  refused(with(task, {{"SLURM_STEP_NODELIST", ""}}), "cannot read SLURM_STEP_NODELIST ''");
}

TEST_CASE("variables that contradict each other are named", "[launch]") {
  refused(with(task, {{"WORLD_SIZE", "8"}}),
          "WORLD_SIZE=8: RANK is not set, and this process is one of 6");
  CHECK(read(with(task, {{"WORLD_SIZE", "6"}}))->world == 6);
  refused(with(batch, {{"WORLD_SIZE", "6"}}), "WORLD_SIZE=6: RANK is not set");
  refused(with(open_mpi, {{"PMIX_RANK", "4"}}), "PMIX_RANK=4: no launcher has this rank");
  refused(with(torch, {{"RANK", "4"}}), "RANK=4: torchrun sets RANK from 0 to below WORLD_SIZE");
  refused(with(task, {{"SLURM_STEP_TASKS_PER_NODE", "3,2"}}),
          "SLURM_STEP_TASKS_PER_NODE=3,2: SLURM_STEP_NODELIST and SLURM_STEP_NUM_TASKS=6");
  refused(with(task, {{"SLURM_STEP_NODELIST", "gpu003"}}), "SLURM_STEP_TASKS_PER_NODE=3(x2)");
}

TEST_CASE("malformed variables are named with their range", "[launch]") {
  refused(with(torch, {{"RANK", "x"}}), "RANK=x: expected a whole number from 0");
  refused(with(torch, {{"RANK", "-1"}}), "RANK=-1: expected a whole number from 0");
  refused(with(torch, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE=0: expected a whole number from 1");
  refused(with(torch, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE=5: expected");
  refused(with(torch, {{"LOCAL_RANK", "2"}}),
          "LOCAL_RANK=2: expected a whole number from 0 to 1; correct or unset it");
  refused(with(torch, {{"MASTER_PORT", "65536"}}), "MASTER_PORT=65536: expected");
  refused(with(torch, {{"MASTER_PORT", "65535"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
          "MASTER_PORT=65535: expected a whole number from 1 to 65534");
  refused(with(task, {{"SLURM_RESTART_COUNT", "2147483647"}}), "SLURM_RESTART_COUNT=2147483647");
  refused(with(task, {{"SLURM_STEP_ID", "4294967296"}}), "SLURM_STEP_ID=4294967296: expected");
  refused(with(torch, {{"MASTER_PORT", "0"}}), "MASTER_PORT=0: expected");
  refused(with(task, {{"SLURM_JOB_ID", "job"}}), "SLURM_JOB_ID=job: expected");
  refused(with(task, {{"SLURM_NODEID", "2"}}),
          "SLURM_NODEID=2: expected a whole number from 0 to 1");
  refused(with(task, {{"SLURM_LOCALID", "3"}}),
          "SLURM_LOCALID=3: expected a whole number from 0 to 2");
  refused(with(task, {{"SLURM_STEP_NODELIST", "gpu[003-"}}),
          "cannot read SLURM_STEP_NODELIST 'gpu[003-': expected an ascending range");
  refused(with(task, {{"SLURM_JOB_END_TIME", "soon"}}), "SLURM_JOB_END_TIME=soon: expected");
}
