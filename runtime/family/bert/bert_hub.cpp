#include "runtime/core/json_text.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/hub_fields.hpp"
#include "runtime/family/recipe_book.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

using kernels::activation;

constexpr std::pair<std::string_view, activation> hub_activations[]
    = {{"gelu", activation::gelu_erf},
       {"gelu_new", activation::gelu_tanh},
       {"gelu_pytorch_tanh", activation::gelu_tanh}};

constexpr std::string_view body_prefix = "bert.";  // which files of the body alone lack

/// The end of the architecture's name: "ForPreTraining", "ForMaskedLM" (without a binary head) or
/// "Model" (without both heads, which begin anew).
std::string_view heads_in(const hub_fields& in, std::string_view title) {
  const auto* const found = in.find("architectures");
  for (const std::string_view heads : {"ForPreTraining", "ForMaskedLM", "Model"})
    if (found != nullptr && *found == nlohmann::json::array({fmt::format("{}{}", title, heads)}))
      return heads;
  in.refuse("architectures",
            fmt::format("one of [\"{0}ForPreTraining\"], [\"{0}ForMaskedLM\"] and [\"{0}Model\"]",
                        title));
}

/// Names of the classes of texts, by number. Choices have none.
std::vector<std::string> class_names(const task_settings& x) {
  return x.kind == task_kind::mnli
             ? std::vector<std::string>{"contradiction", "entailment", "neutral"}
         : x.kind == task_kind::qqp ? std::vector<std::string>{"0", "1"}
                                    : x.labels;
}

const char* title_of(const bert_config& x) {
  return x.post_norm ? "Bert" : "MegatronBert";
}

nlohmann::ordered_json fields_of(const bert_config& x, const char* architecture) {
  if (x.types == 0)
    throw input_error(
        "no BERT of the Hub lacks types of tokens. Only models trained without "
        "`model.binary_head=false` can be exported");
  return {{"architectures", {title_of(x) + std::string(architecture)}},
          {"model_type", x.post_norm ? "bert" : "megatron-bert"},
          {"vocab_size", x.vocabulary},
          {"hidden_size", x.hidden},
          {"num_hidden_layers", x.layers},
          {"num_attention_heads", x.heads},
          {"intermediate_size", x.ffn},
          {"hidden_act", x.activation == activation::gelu_erf ? "gelu" : "gelu_new"},
          {"hidden_dropout_prob", x.hidden_dropout},
          {"attention_probs_dropout_prob", x.attention_dropout},
          {"max_position_embeddings", x.positions},
          {"type_vocab_size", x.types},
          {"initializer_range", x.init_std},
          {"layer_norm_eps", x.norm_epsilon},
          {"tie_word_embeddings", true}};
}

class bert_translation final : public hub_translation {
 public:
  bool reads(std::string_view model_type) const override {
    return model_type == "bert" || model_type == "megatron-bert";
  }

  model_description model_of(std::string_view config_json,
                             const std::string& where) const override {
    const hub_fields in(parse_json(config_json, where), where);
    in.require("is_decoder", false);
    in.require("add_cross_attention", false);
    in.require("position_embedding_type", "absolute");
    in.require("tie_word_embeddings", true);
    bert_config x;
    x.post_norm = in.text("model_type", "") == "bert";
    const auto heads = heads_in(in, title_of(x));
    x.binary_head = heads != "ForMaskedLM";
    x.layers = in.size("num_hidden_layers");
    x.hidden = in.size("hidden_size");
    x.heads = in.size("num_attention_heads");
    x.ffn = in.size("intermediate_size");
    x.vocabulary = x.padded_vocabulary = in.size("vocab_size");
    x.sequence = x.positions = in.size("max_position_embeddings", 512);
    x.types = in.size("type_vocab_size", 2);
    const auto name = in.text("hidden_act", "gelu");
    const auto* const kind
        = std::ranges::find(hub_activations, name, &std::pair<std::string_view, activation>::first);
    if (kind == std::end(hub_activations))
      in.refuse("hidden_act", R"("gelu", "gelu_new" or "gelu_pytorch_tanh")");
    x.activation = kind->second;
    if (heads != "Model")
      x.head_activation = x.activation;
    x.norm_epsilon = in.number("layer_norm_eps", 1e-12);
    x.init_std = in.number("initializer_range", 0.02);
    x.hidden_dropout = x.attention_dropout = 0;
    if (const auto wrong = runtime::validate(x); !wrong.empty())
      throw input_error("{}: {}", where, wrong.front());
    return x;
  }

  std::string config_json(const model_description& model) const override {
    const auto& x = model.as<bert_config>();
    if (x.task.is_on()) {
      const bool chooses = x.task.choices() > 1;
      auto out = fields_of(x, chooses ? "ForMultipleChoice" : "ForSequenceClassification");
      const auto names = class_names(x.task);
      for (std::size_t i = 0; i < names.size(); ++i) {
        out["id2label"][std::to_string(i)] = names[i];
        out["label2id"][names[i]] = i;
      }
      return json_text(out);
    }
    if (x.head_activation != x.activation)
      throw input_error(
          "no model of the Hub has the tanh formula of GELU in its layers and the exact one in its "
          "head. Export the model without its heads, or train it with `model.activation=gelu_erf`");
    return json_text(fields_of(x, x.binary_head ? "ForPreTraining" : "ForMaskedLM"));
  }

  std::string body_json(const model_description& model) const override {
    return json_text(fields_of(model.as<bert_config>(), "Model"));
  }

  std::string name_in_body(std::string_view source) const override {
    return source.starts_with(body_prefix) ? std::string(source.substr(body_prefix.size())) : "";
  }

  std::vector<hub_recipe> recipes(const model_description& model,
                                  const std::function<bool(std::string_view)>& has) const override;

  bool is_constant(std::string_view source) const override {
    return source == "bert.embeddings.position_ids" || source == "embeddings.position_ids";
  }

  bool is_left_out(const model_description& model, std::string_view source) const override {
    return !model.as<bert_config>().binary_head
           && (source.starts_with("bert.pooler.") || source.starts_with("cls.seq_relationship."));
  }

  std::string copied_from(std::string_view source,
                          const std::vector<hub_recipe>& all) const override {
    if (source == "cls.predictions.decoder.weight")
      return all.front().rows.front().source;
    return source == "cls.predictions.decoder.bias" ? "cls.predictions.bias" : "";
  }

  bool is_same_function(const model_description& there,
                        const model_description& here) const override {
    auto x = there.as<bert_config>();
    const auto& y = here.as<bert_config>();
    x.sequence = y.sequence;
    x.vocabulary = y.vocabulary;
    x.padded_vocabulary = y.padded_vocabulary;
    x.hidden_dropout = y.hidden_dropout;
    x.attention_dropout = y.attention_dropout;
    x.init_std = y.init_std;
    x.masking = y.masking;
    return x == y;
  }

  std::int64_t longest(const model_description& model) const override {
    return model.as<bert_config>().positions;
  }
};

/// The recipes of one model. Old files have "gamma" and "beta" in norms.
struct bert_book {
  const bert_config& c;
  std::string prefix = std::string(body_prefix);
  bool is_old = false;
  recipe_book book = {};

  void norm(const std::string& ours, const std::string& theirs) {
    book.copy(
        ours + ".weight", theirs + (is_old ? ".gamma" : ".weight"), c.hidden, recipe_book::vector);
    book.copy(ours + ".bias", theirs + (is_old ? ".beta" : ".bias"), c.hidden, recipe_book::vector);
  }
  void linear(const std::string& ours,
              const std::string& theirs,
              std::int64_t out,
              std::int64_t in) {
    book.copy(ours + ".weight", theirs + ".weight", out, in);
    book.copy(ours + ".bias", theirs + ".bias", out, recipe_book::vector);
  }
  void table(const char* name, std::int64_t rows) {
    const std::string theirs = name == std::string_view("tokentype") ? "token_type" : name;
    if (rows > 0)
      book.copy(fmt::format("embedding.{}_embeddings.weight", name),
                fmt::format("{}embeddings.{}_embeddings.weight", prefix, theirs),
                rows,
                c.hidden);
  }
  void layer(std::int64_t number) {
    const auto ours = fmt::format("encoder.layers.{}.", number);
    const auto theirs = fmt::format("{}encoder.layer.{}.", prefix, number);
    const auto qkv = [&](const char* kind, std::int64_t columns) {
      const auto of = [&](const char* part) {
        return fmt::format("{}attention.self.{}.{}", theirs, part, kind);
      };
      book.add(fmt::format("{}self_attention.linear_qkv.{}", ours, kind),
               3 * c.hidden,
               columns,
               fused_qkv({of("query"), of("key"), of("value")}, c.heads, c.heads, c.head_size()));
    };
    if (!c.post_norm)
      norm(ours + "input_layernorm", theirs + "attention.ln");
    qkv("weight", c.hidden);
    qkv("bias", recipe_book::vector);
    linear(
        ours + "self_attention.linear_proj", theirs + "attention.output.dense", c.hidden, c.hidden);
    if (c.post_norm)
      norm(ours + "post_attention_layernorm", theirs + "attention.output.LayerNorm");
    else
      norm(ours + "pre_mlp_layernorm", theirs + "ln");
    linear(ours + "mlp.linear_fc1", theirs + "intermediate.dense", c.ffn, c.hidden);
    linear(ours + "mlp.linear_fc2", theirs + "output.dense", c.hidden, c.ffn);
    if (c.post_norm)
      norm(ours + "post_mlp_layernorm", theirs + "output.LayerNorm");
  }
};

std::vector<hub_recipe> bert_translation::recipes(
    const model_description& model, const std::function<bool(std::string_view)>& has) const {
  const auto& c = model.as<bert_config>();
  bert_book to{c};
  const bool is_body = has && has("embeddings.word_embeddings.weight");
  if (is_body)
    to.prefix.clear();
  to.is_old = has
              && (has(to.prefix + "embeddings.LayerNorm.gamma")
                  || has("cls.predictions.transform.LayerNorm.gamma"));
  const auto is_there = [&](const std::string& source) { return !is_body || has(source); };
  to.table("word", c.vocabulary);
  to.table("position", c.positions);
  to.table("tokentype", c.types);
  if (c.post_norm)
    to.norm("embedding.layer_norm", to.prefix + "embeddings.LayerNorm");
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    to.layer(layer);
  if (!c.post_norm)
    to.norm("encoder.final_layernorm", to.prefix + "encoder.ln");
  // A task begins with the pooler of files for masked tokens, too.
  const auto pooler = to.prefix + "pooler.dense";
  const bool may_lack = has && (is_body || !c.binary_head);
  if (may_lack ? has(pooler + ".weight") : c.binary_head || c.task.is_on())
    to.linear("pooler.dense", pooler, c.hidden, c.hidden);
  if (c.task.is_on()) {
    to.linear(
        "classification_head", "classifier", c.task.choices() > 1 ? 1 : c.task.classes(), c.hidden);
    return to.book.take();
  }
  if (c.binary_head && is_there("cls.seq_relationship.weight"))
    to.linear("binary_head", "cls.seq_relationship", 2, c.hidden);
  if (is_there("cls.predictions.bias")) {
    to.linear("lm_head.dense", "cls.predictions.transform.dense", c.hidden, c.hidden);
    to.norm("lm_head.layer_norm", "cls.predictions.transform.LayerNorm");
    to.book.copy("output_layer.bias", "cls.predictions.bias", c.vocabulary, recipe_book::vector);
  }
  return to.book.take();
}

}  // namespace

const hub_translation& bert_hub() {
  static const bert_translation only;
  return only;
}

}  // namespace troupe::runtime
