#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/bert/bert_task.hpp"
#include "runtime/family/config_json.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/layer_outline.hpp"
#include "runtime/model/counts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

constexpr enum_name task_names[] = {{to_string(task_kind::none), int(task_kind::none)},
                                    {to_string(task_kind::mnli), int(task_kind::mnli)},
                                    {to_string(task_kind::qqp), int(task_kind::qqp)},
                                    {to_string(task_kind::race), int(task_kind::race)},
                                    {to_string(task_kind::csv), int(task_kind::csv)}};

}  // namespace

constexpr std::span<const enum_name> names_of(task_kind) {
  return task_names;
}

namespace {

const bert_config& bert_of(const model_description& model) {
  return model.as<bert_config>();
}

/// Members that may differ from the Hub's.
bool may_differ(std::string_view member) {
  constexpr std::string_view all[] = {
      "sequence", "vocabulary", "binary_head", "hidden_dropout", "attention_dropout", "init_std"};
  return std::ranges::find(all, member) != std::end(all) || member.starts_with("masking.")
         || member.starts_with("task.");
}

layer_outline bert_layer_outline(const bert_config& c) {
  return outline_of({.hidden = double(c.hidden),
                     .attention_width = double(c.hidden),
                     .heads = double(c.heads),
                     .ffn = double(c.ffn),
                     .drops = c.hidden_dropout > 0,
                     .keys = double(c.sequence),
                     .vectors_of_norm = 2 * double(c.hidden)});
}

class bert final : public model_family {
 public:
  std::string_view name() const override { return "bert"; }
  std::string_view title() const override { return "a BERT"; }
  model_description defaults() const override { return bert_config(); }
  model_description smallest(int layers) const override {
    bert_config out;
    out.layers = layers;
    out.hidden = 16;
    out.heads = 2;
    out.ffn = 32;
    out.sequence = out.positions = 6;
    out.vocabulary = 29;
    out.padded_vocabulary = 32;
    return out;
  }
  model_spec spec(const model_description& model, const extension& own) const override {
    return bert_spec(bert_of(model), own);
  }

  model_sizes sizes(const model_description& model) const override {
    const auto& x = bert_of(model);
    return {x.rows(), x.vocabulary, x.padded_vocabulary, x.layers};
  }

  void set_vocabulary(model_description& model,
                      std::int64_t vocabulary,
                      std::int64_t padded) const override {
    model.as<bert_config>().vocabulary = vocabulary;
    model.as<bert_config>().padded_vocabulary = padded;
  }

  std::vector<std::string> validate(const model_description& model) const override {
    return runtime::validate(bert_of(model));
  }
  std::string to_json(const model_description& model) const override {
    return config_to_json(bert_of(model));
  }
  model_description from_json(const std::string& text) const override {
    return config_from_json<bert_config>(text, title());
  }

  std::string essence(const model_description& model) const override {
    auto out = json_value(to_json(model));
    for (const auto* field : {"hidden_dropout",
                              "attention_dropout",
                              "init_std",
                              "sequence",
                              "padded_vocabulary",
                              "masking"})
      out.erase(field);
    if (const auto task = out.find("task"); task != out.end()) {
      for (const auto* field : {"train", "valid", "epochs"})
        task->erase(field);
    }
    return json_text(out);
  }

  model_description body_of(const model_description& model) const override {
    auto out = bert_of(model);
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

  unit_letters letters(const model_description& model) const override {
    return bert_letters(bert_of(model));
  }

  bool has_dropout(const model_description& model) const override {
    const auto& x = bert_of(model);
    return x.hidden_dropout > 0 || x.attention_dropout > 0;
  }

  const family_samples& samples() const override { return bert_samples(); }
  std::vector<shared_size> shared_by_tensor_ranks(const model_description& model) const override {
    const auto& x = bert_of(model);
    return {{"`model.heads`", x.heads, x.hidden},
            {"`model.ffn`", x.ffn},
            {"the padded vocabulary", x.padded_vocabulary}};
  }

  std::string describe(const model_description& model, const extension& own) const override {
    const auto& x = bert_of(model);
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
    if (bert_of(model).types > 0)
      out.zeros = {"types"};
    return out;
  }

  const hub_translation* hub() const override { return &bert_hub(); }
  std::optional<model_outline> outline(const model_description& model) const override {
    const auto& x = bert_of(model);
    return model_outline{.hidden = double(x.hidden),
                         .sequence = double(x.rows()),
                         .vocabulary = double(x.padded_vocabulary),
                         .positions = double(x.positions + x.types),
                         .tied = true,
                         .drops = has_dropout(model),
                         .kinds = {bert_layer_outline(x)},
                         .layers = std::vector<int>(std::size_t(x.layers), 0)};
  }

  std::any asked() const override { return bert_config(); }

  std::vector<bound_setting> bind(std::any& asked) const override {
    return bind_settings(std::any_cast<bert_config&>(asked), "model.");
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

  std::optional<model_description> resolve(const std::any& asked,
                                           const given_settings& given,
                                           std::vector<std::string>& /*wrong*/) const override {
    auto out = std::any_cast<const bert_config&>(asked);
    if (!given.contains("model.ffn"))
      out.ffn = 4 * out.hidden;
    if (!given.contains("model.positions"))
      out.positions = out.sequence;
    if (!given.contains("model.norm_epsilon"))
      out.norm_epsilon = out.post_norm ? 1e-12 : 1e-5;
    out.types = out.binary_head ? 2 : 0;
    for (const auto& x : required())
      if (!given.contains(x.name))
        return std::nullopt;
    return out;
  }

  model_description resolve_hub(const model_description& there,
                                const std::any& asked,
                                const given_settings& given,
                                const std::string& hub,
                                std::vector<std::string>& wrong) const override {
    auto out = bert_of(there);
    const auto& said = std::any_cast<const bert_config&>(asked);
    contradictions found(hub, wrong);
    compare_members(said, out, json_value(to_json(there)), "", given, may_differ, found);
    take(given, "model.sequence", out.sequence, said.sequence);
    out.binary_head = out.binary_head && said.binary_head;  // a flag can only leave it out
    take(given, "model.hidden_dropout", out.hidden_dropout, said.hidden_dropout);
    take(given, "model.attention_dropout", out.attention_dropout, said.attention_dropout);
    out.init_std = said.init_std;
    out.masking = said.masking;
    out.task = said.task;
    return out;
  }

  void write_back(const model_description& model,
                  std::any& asked,
                  given_settings& given,
                  bool from_hub) const override {
    const auto& x = bert_of(model);
    auto& said = std::any_cast<bert_config&>(asked);
    decide(given, "model.hidden_dropout", said.hidden_dropout, x.hidden_dropout);
    decide(given, "model.attention_dropout", said.attention_dropout, x.attention_dropout);
    if (from_hub)
      return;  // the rest of the shape is in the Hugging Face folder
    decide(given, "model.ffn", said.ffn, x.ffn);
    decide(given, "model.positions", said.positions, x.positions);
    decide(given, "model.norm_epsilon", said.norm_epsilon, x.norm_epsilon);
  }
};

}  // namespace

const model_family& bert_family() {
  static const bert only;
  return only;
}

const model_family& family_of(const bert_config& /*config*/) {
  return bert_family();
}

}  // namespace troupe::runtime
