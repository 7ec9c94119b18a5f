#include "runtime/core/json_text.hpp"
#include "runtime/family/bert/bert.hpp"
#include "runtime/family/hub_contradictions.hpp"
#include "runtime/family/hub_fields.hpp"
#include "runtime/family/recipe_book.hpp"

#include <algorithm>
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
      const auto names = x.task.class_names();
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
    return differ_in_training(
        there.as<bert_config>(), here.as<bert_config>(), &bert_config::vocabulary);
  }

  std::int64_t longest(const model_description& model) const override {
    return model.as<bert_config>().positions;
  }
};

/// `norms`: the ends of their names.
void add_layer_names(std::vector<hub_name>& to,
                     const bert_config& c,
                     const std::string& prefix,
                     const std::pair<const char*, const char*>& norms) {
  const std::string ours = "encoder.layers.{}.", theirs = prefix + "encoder.layer.{}.";
  const auto attention = theirs + "attention.self.";
  const auto norm = [&](const char* name, const char* source) {
    to.push_back({ours + name, {theirs + source}, 1, norms.first, norms.second});
  };
  norm("input_layernorm", "attention.ln");
  to.push_back({ours + "self_attention.linear_qkv",
                {attention + "query", attention + "key", attention + "value"},
                c.heads});
  to.push_back({ours + "self_attention.linear_proj", {theirs + "attention.output.dense"}});
  norm("post_attention_layernorm", "attention.output.LayerNorm");
  norm("pre_mlp_layernorm", "ln");
  to.push_back({ours + "mlp.linear_fc1", {theirs + "intermediate.dense"}});
  to.push_back({ours + "mlp.linear_fc2", {theirs + "output.dense"}});
  norm("post_mlp_layernorm", "output.LayerNorm");
}

std::vector<hub_recipe> bert_translation::recipes(
    const model_description& model, const std::function<bool(std::string_view)>& has) const {
  auto c = model.as<bert_config>();
  const auto is_there = [&](const std::string& source) { return !has || has(source); };
  const bool is_body = has && has("embeddings.word_embeddings.weight");
  const auto prefix = is_body ? std::string() : std::string(body_prefix);
  const auto embeddings = prefix + "embeddings.", predictions = std::string("cls.predictions");
  const auto transform = predictions + ".transform.";
  const bool is_old
      = has && (has(embeddings + "LayerNorm.gamma") || has(transform + "LayerNorm.gamma"));
  const auto norms = is_old ? std::pair("gamma", "beta") : std::pair("weight", "bias");
  const auto norm = [&](const char* ours, const std::string& theirs) {
    return hub_name{ours, {theirs}, 1, norms.first, norms.second};
  };
  std::vector<hub_name> names
      = {{"embedding.word_embeddings", {embeddings + "word_embeddings"}},
         {"embedding.position_embeddings", {embeddings + "position_embeddings"}},
         {"embedding.tokentype_embeddings", {embeddings + "token_type_embeddings"}},
         norm("embedding.layer_norm", embeddings + "LayerNorm"),
         norm("encoder.final_layernorm", prefix + "encoder.ln"),
         {"classification_head", {"classifier"}}};
  add_layer_names(names, c, prefix, norms);
  if (c.binary_head && (!is_body || is_there("cls.seq_relationship.weight")))
    names.push_back({"binary_head", {"cls.seq_relationship"}});
  if (!is_body || is_there(predictions + ".bias")) {
    names.push_back({"lm_head.dense", {transform + "dense"}});
    names.push_back(norm("lm_head.layer_norm", transform + "LayerNorm"));
    names.push_back({"output_layer", {predictions}});
  }
  // A task begins with the pooler of files for masked tokens, too.
  const auto pooler = prefix + "pooler.dense";
  if (is_there(pooler + ".weight") || !(is_body || !c.binary_head)) {
    names.push_back({"pooler.dense", {pooler}});
    c.binary_head = c.binary_head || has;
  }
  return recipes_by_name(bert_spec(c, {}), names);
}

}  // namespace

const hub_translation& bert_hub() {
  static const bert_translation only;
  return only;
}

}  // namespace troupe::runtime
