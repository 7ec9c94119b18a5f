// The plan of faults: kind, victim and moment of each, decided in advance by the seed.

#pragma once

#include "actors/command/chaos/faults.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::command::chaos {

struct disturbance {
  std::uint64_t number = 1;  ///< from 1
  std::uint64_t run = 1;     ///< from 1; several faults may strike one run, one after the other
  fault_kind kind = {};
  role who = {};
  /// A planted fault strikes in this step. Others strike after its commit and `delay` of a step's
  /// time.
  std::uint64_t step = 0;
  double delay = 0;
  double choice = 0;  ///< in [0, 1): selects a process of that role
  std::string actor = {}, moment = {};
  std::vector<std::string> plants = {};  ///< values for --plant-death; empty: from outside

  bool is_planted() const { return !plants.empty(); }
};

struct plan_wish {
  std::vector<fault_kind> kinds;
  std::vector<role> roles;
  std::vector<std::string> moments;  ///< empty: all
  std::uint64_t count = 1, seed = 1;
  std::uint64_t every = 1;       ///< steps between two faults
  std::uint64_t first = 0;       ///< first iteration of a run, minus 1
  std::uint64_t last = 0;        ///< last iteration of a run
  std::uint64_t save_every = 0;  ///< steps; 0: only at the end
  std::uint64_t validate_every = 0;
  bool link_commands = false;
  bool over_hosts = false;                 ///< standing nodes start the nodes of the job
  double suspicion = 0, step_seconds = 0;  ///< of the job; 0: every fault is over within a step
};

/// A plan of `count` faults. Throws usage_error if no kind can strike any role, or if the run has
/// too few steps.
std::vector<disturbance> plan_of(const plan_wish& wish, const runtime::training_job& job);

/// A plan of every kind with every role at every moment, each in its own run.
std::vector<disturbance> plan_of_all(const plan_wish& wish, const runtime::training_job& job);

}  // namespace troupe::command::chaos
