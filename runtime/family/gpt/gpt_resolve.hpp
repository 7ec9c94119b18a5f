// Makes a GPT of the settings that were asked for. The contracts are those of model_family.

#pragma once

#include "runtime/family/gpt/gpt_asked.hpp"
#include "runtime/family/model_family.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

std::optional<gpt_config> resolve(const gpt_asked& asked,
                                  const given_settings& given,
                                  std::vector<std::string>& wrong);

gpt_config resolve_hub(const gpt_config& there,
                       const gpt_asked& asked,
                       const given_settings& given,
                       const std::string& hub,
                       std::vector<std::string>& wrong);

void write_back(const gpt_config& config, gpt_asked& asked, given_settings& given, bool from_hub);

}  // namespace troupe::runtime
