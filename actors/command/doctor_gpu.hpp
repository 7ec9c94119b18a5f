// The findings of `troupe doctor` about GPUs and their plug-ins.

#pragma once

#include "actors/command/doctor_findings.hpp"

#include <nlohmann/json_fwd.hpp>

namespace troupe::command {

/// Adds notes only, since a run without a GPU computes on processors. Adds none without a sign of a
/// GPU.
void add_gpu_findings(const machine_facts& x, std::vector<finding>& out);

/// Lines of the page, as title and text. One line without a sign of a GPU.
std::vector<std::pair<std::string, std::string>> gpu_lines(const machine_facts& x);

nlohmann::ordered_json gpu_json(const machine_facts& x);

}  // namespace troupe::command
