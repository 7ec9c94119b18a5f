// What `troupe doctor` makes of GPUs and of the plug-ins that compute on them.

#pragma once

#include "actors/command/doctor_findings.hpp"

#include <nlohmann/json_fwd.hpp>

namespace troupe::command {

/// Notes only: without a GPU a run computes on processors. None where nothing points to one.
void add_gpu_findings(const machine_facts& x, std::vector<finding>& out);

/// Lines of the page: what they are about, and the text. One where nothing points to a GPU.
std::vector<std::pair<std::string, std::string>> gpu_lines(const machine_facts& x);

nlohmann::ordered_json gpu_json(const machine_facts& x);

}  // namespace troupe::command
