#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/spec_outline.hpp"
#include "runtime/family/tasks.hpp"
#include "runtime/family/typed_family.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

/// Members beside those of training that may differ from the Hub's.
bool may_differ(std::string_view member) {
  return member == "binary_head" || member.starts_with("task.");
}

/// Sizes that were given although the others decide them.
void require_own_sizes(const bert_asked& asked,
                       const bert_config& x,
                       std::vector<std::string>& wrong) {
  if (const auto size = asked.head_size;
      size && x.heads > 0 && x.hidden % x.heads == 0 && *size != x.head_size())
    wrong.push_back(
        fmt::format("`model.head_size` is {}, but {} heads share `model.hidden` {}: leave it out",
                    *size,
                    x.heads,
                    x.hidden));
  if (const auto groups = asked.groups; groups && *groups != x.heads)
    wrong.push_back(fmt::format(
        "`model.groups` is {}, but each of the {} heads has its own keys and values: leave it out",
        *groups,
        x.heads));
}

class bert final : public typed_family<bert_config, bert_asked> {
 public:
  std::string_view name() const override { return "bert"; }
  std::string_view title() const override { return "a BERT"; }
  model_description smallest(int layers) const override {
    auto out = of_smallest_sizes();
    out.layers = layers;
    out.sequence = out.positions = 6;
    return out;
  }
  model_spec spec(const model_description& model, const extension& own) const override {
    return bert_spec(config_of(model), own);
  }

  model_sizes sizes(const model_description& model) const override {
    const auto& x = config_of(model);
    return {x.rows(), x.vocabulary, x.padded_vocabulary, x.layers};
  }

  model_description body_of(const model_description& model) const override {
    auto out = config_of(model);
    out.task = {};
    out.binary_head = true;  // its heads are not loaded
    return out;
  }

  bool begins_anew(const model_description& /*model*/, std::string_view parameter) const override {
    constexpr std::string_view heads[]
        = {"pooler.", "binary_head.", "lm_head.", "output_layer.", task_head_prefix};
    return std::ranges::any_of(heads, [&](auto head) { return parameter.starts_with(head); });
  }

  const char* own_data() const override { return "model.task.train"; }

  const family_samples& samples() const override { return bert_samples(); }
  std::vector<shared_size> shared_by_tensor_ranks(const model_description& model) const override {
    return usual_shares(config_of(model), config_of(model).hidden);
  }

  std::string describe(const model_description& model, const extension& own) const override {
    const auto& x = config_of(model);
    const auto activation
        = x.activation == kernels::activation::gelu_tanh ? "GELU (tanh)" : "GELU (erf)";
    return fmt::format(
        "model       encoder of {}, C {}, {} of {}, feed-forward {}, T {}\n"
        "            {} learned positions, {}, norms {} layers, {}, dropout {} / {}\n"
        "            vocabulary {} padded to {}; {} binary head; {} parameters\n",
        counted(x.layers, "layer"),
        x.hidden,
        counted(x.heads, "head"),
        x.head_size(),
        x.ffn,
        x.sequence,
        x.positions,
        counted(x.types, "type of tokens", "types of tokens"),
        x.post_norm ? "after" : "before",
        activation,
        x.hidden_dropout,
        x.attention_dropout,
        x.vocabulary,
        x.padded_vocabulary,
        x.task.is_on()  ? fmt::format("a head of {} for {} and no",
                                     counted(x.task.classes(), "class", "classes"),
                                     to_string(x.task.kind))
        : x.binary_head ? "with a"
                        : "no",
        runtime::parameter_count(spec(model, own)));
  }

  std::optional<embedded_text> embedded(const model_description& model,
                                        const tokenizer& text) const override {
    const auto marks = pair_tokens_of(text);
    embedded_text out{
        .before = {marks.classify}, .after = {marks.separator}, .nothing = padding_of(text)};
    if (config_of(model).types > 0)
      out.zeros = {"types"};
    return out;
  }

  const hub_translation* hub() const override { return &bert_hub(); }
  std::optional<model_outline> outline(const model_description& model) const override {
    const auto& x = config_of(model);
    return outline_of(bert_spec(x, {}), bert_schema(x), has_dropout(model), x.task.choices());
  }

  std::vector<setting_group> groups() const override {
    return {{"Model",
             "model.layers model.hidden model.heads model.ffn model.sequence model.positions "
             "model.vocabulary_divisor checkpoints.load_hub model.*"}};
  }

  std::vector<required_setting> required() const override {
    return {{"model.layers", "2"},
            {"model.hidden", "64"},
            {"model.heads", "4"},
            {"model.sequence", "64"}};
  }
};

}  // namespace

std::optional<bert_config> resolve(const bert_asked& asked,
                                   const given_settings& given,
                                   std::vector<std::string>& wrong) {
  auto out = asked.config;
  if (!given.contains("model.ffn"))
    out.ffn = 4 * out.hidden;
  if (!given.contains("model.positions"))
    out.positions = out.sequence;
  if (!given.contains("model.norm_epsilon"))
    out.norm_epsilon = out.post_norm ? 1e-12 : 1e-5;
  out.types = out.binary_head ? 2 : 0;
  for (const auto& x : bert_family().required())
    if (!given.contains(x.name))
      return std::nullopt;
  require_own_sizes(asked, out, wrong);
  return out;
}

bert_config resolve_hub(const bert_config& there,
                        const bert_asked& asked,
                        const given_settings& given,
                        const std::string& hub,
                        std::vector<std::string>& wrong) {
  auto out = there;
  const auto& said = asked.config;
  contradictions found(hub, wrong);
  compare_settings(said, there, given, may_differ, found);
  take_training(given, said, out);
  out.binary_head = there.binary_head && said.binary_head;  // a flag can only leave it out
  out.init_std = said.init_std;
  out.task = said.task;
  require_own_sizes(asked, out, wrong);
  return out;
}

void write_back(const bert_config& config,
                bert_asked& asked,
                given_settings& given,
                bool from_hub) {
  auto& said = asked.config;
  decide_members(given, "model.", said, config, {"hidden_dropout", "attention_dropout"});
  if (!from_hub)  // there the rest of the shape is in the Hugging Face folder
    decide_members(given, "model.", said, config, {"ffn", "positions", "norm_epsilon"});
}

const model_family& bert_family() {
  static const bert only;
  return only;
}

const model_family& family_of(const bert_config& /*config*/) {
  return bert_family();
}

}  // namespace troupe::runtime
