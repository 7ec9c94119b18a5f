#include "runtime/model/model_spec.hpp"

#include "runtime/core/error.hpp"
#include "runtime/telemetry/step_report.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/format.h>
#include <map>

namespace troupe::runtime {
namespace {

constexpr std::string_view letters_of_losses = "abcdefghijklmnopqrstuvwxyz0123456789_ ";

bool is_loss_name(std::string_view name) {
  const auto key = named_loss{std::string(name)}.key();
  // Logs and their viewers have these keys already.
  const bool is_taken = key == "sum_loss" || key == "best_accuracy" || name == "lm_loss";
  return !is_taken && is_loss_key(key) && !key.starts_with("_") && !key.starts_with("validation_")
         && !key.starts_with("test_") && name.find("  ") == std::string_view::npos
         && name.find_first_not_of(letters_of_losses) == std::string_view::npos;
}

}  // namespace

std::string documents_of(const stream_spec& x) {
  return x.documents.empty() && x.positions == "positions" ? "documents" : x.documents;
}

unit_letters model_spec::letters() const {
  unit_letters out;
  for (const auto& unit : units) {
    ensure(std::isalpha(static_cast<unsigned char>(unit.letter)) != 0,
           "MODEL-10: the letter of a unit is a letter");
    const bool layer = unit.layer >= 0;
    if (out.empty() || out.back().letter != unit.letter || out.back().layers != layer)
      out.push_back({unit.letter, 0, layer});
    ++out.back().units;
  }
  return out;
}

const stream_spec& model_spec::stream_of(std::string_view name) const {
  for (const auto& x : streams)
    if (x.name == name)
      return x;
  throw broken_promise("MODEL-2: a unit works on a stream of its model");
}

std::string wrong_loss(const std::vector<loss_spec>& all) {
  std::map<std::string, const loss_spec*> by_key;
  for (const auto& x : all) {
    if (!is_loss_name(x.name))
      return fmt::format(
          "'{}' is not the name of a loss: give it words of a-z, 0-9 and _ that end in ' loss' or "
          "'_loss' and do not begin with validation or test; 'sum loss' and 'lm_loss' are taken",
          x.name);
    if (!std::isfinite(x.weight))
      return fmt::format("the weight of '{}' is {}: give it a finite one", x.name, x.weight);
    const auto& first = *by_key.emplace(named_loss{x.name}.key(), &x).first->second;
    if (first.name != x.name)
      return fmt::format(
          "'{}' and '{}' have the same field in logs: rename one", first.name, x.name);
    if (first.weight != x.weight)
      return fmt::format(
          "'{}' has the weights {} and {}: give it one", x.name, first.weight, x.weight);
  }
  return {};
}

std::vector<loss_spec> losses_of(const model_spec& model) {
  std::vector<loss_spec> all, out;
  const auto add = [&all](const model_unit& unit) {
    const auto its = unit.module.traits().losses;
    all.insert(all.end(), its.begin(), its.end());
  };
  if (!model.units.empty())
    add(model.units.back());
  for (const auto& unit : model.units)
    add(unit);
  ensure(wrong_loss(all).empty(), "MODEL-6: a loss has one weight, and a name with its own field");
  for (auto& x : all)
    if (std::ranges::find(out, x.name, &loss_spec::name) == out.end())
      out.push_back(std::move(x));
  return out;
}

bool is_only_lm_loss(const std::vector<loss_spec>& losses) {
  return losses.size() == 1 && losses.front().name == lm_loss && losses.front().weight == 1;
}

void model_spec::missing_part() {
  throw broken_promise("MODEL-3: a model has the part that is asked for");
}

}  // namespace troupe::runtime
