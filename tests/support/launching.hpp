// Tests of the launch machine: the test plays the supervisor, the host agent and the processes.

#pragma once

#include "actors/process/launch_machine.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <variant>
#include <vector>

namespace troupe::tests {

inline constexpr messages::process_name home{-1, 1};

inline runtime::generation_id in(std::uint64_t epoch, std::uint64_t number = 1) {
  return runtime::make_generation(epoch, number);
}

/// All actions of one type.
template <class Action>
std::vector<Action> of(const actors::launch_actions& all) {
  std::vector<Action> out;
  for (const auto& one : all)
    if (const auto* const x = std::get_if<Action>(&one))
      out.push_back(*x);
  return out;
}

struct launching {
  actors::launch_machine machine{{0, 0}, home};

  /// Reports that the agent started the one requested process; returns its name.
  messages::process_name start(const actors::launch_actions& asked, std::int64_t pid) {
    const auto what = of<actors::launch_action::start>(asked);
    REQUIRE(what.size() == 1);
    machine.started(what[0].request, pid);
    return what[0].who;
  }
  /// Takes a process from the start request to "process started"; returns its name.
  messages::process_name stand(int process,
                               std::uint32_t incarnation = 1,
                               std::uint64_t epoch = 1) {
    const std::int64_t pid = 100 * (process + 1) + incarnation;
    const auto who = start(machine.wanted(process, in(epoch)), pid);
    come({process, incarnation}, pid);
    return who;
  }
  void come(messages::process_name who, std::int64_t pid) {
    REQUIRE(machine.joins(who, pid).empty());
    REQUIRE(of<actors::launch_action::tell_started>(machine.present(who)).size() == 1);
  }
};

}  // namespace troupe::tests
