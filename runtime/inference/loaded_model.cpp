#include "runtime/inference/loaded_model.hpp"

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/hub.hpp"
#include "runtime/checkpoint/hub_origin.hpp"
#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/checkpoint/same_extension.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/liveness.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// The folder in which a training run kept its tokenizer, above the checkpoint.
fs::path run_folder(const fs::path& checkpoint) {
  return fs::absolute(checkpoint).lexically_normal().parent_path();
}

std::string tokenizer_description(const checkpoint_reader& checkpoint) {
  const auto where = fmt::format("the identity in '{}'", checkpoint.folder().string());
  const auto identity = parse_json(checkpoint.manifest().identity, where);
  return json_text(object_member(identity, "tokenizer", where));
}

/// True for a layer whose self-attention is not causal.
bool sees_later_tokens(const model_unit& unit) {
  const auto* const layer = unit.module.get_if<layer_spec>();
  return layer != nullptr && std::ranges::any_of(layer->sublayers, [](const module_spec& x) {
           const auto* const sublayer = x.get_if<residual_sublayer>();
           const auto* const attention
               = sublayer == nullptr ? nullptr : sublayer->body.get_if<attention_spec>();
           return attention != nullptr && !attention->causal;
         });
}

/// Refuses a model that does not turn tokens alone into logits of the next ones.
void require_text(const model_spec& model,
                  const model_family& family,
                  const std::optional<given_text>& before,
                  const fs::path& from) {
  const auto tokens = token_schema(model.sequence, true);
  const auto is_given = [&](const std::string& name) {
    return before
           && (name == before->tokens || name == before->positions || is_document_border(name));
  };
  for (const auto& name : flow_of(model, all_of(model)).batch)
    if (!tokens.gives(name) && !is_given(name))
      throw input_error(
          "cannot run the model in '{}' on text: it is {}, which also reads '{}' of each sample; "
          "name a model of text",
          from.string(),
          family.title(),
          name);
  const auto has = [&]<class Module>(std::type_identity<Module>) {
    return std::ranges::any_of(model.units, [](const model_unit& unit) {
      return unit.module.get_if<Module>() != nullptr;
    });
  };
  if (!has(std::type_identity<embedding_spec>()) || !has(std::type_identity<head_spec>()))
    throw input_error(
        "cannot run the model in '{}' on text: it is {}, without an embedding or a head of tokens; "
        "name a model of text",
        from.string(),
        family.title());
  const auto sees_later = [&](const model_unit& unit) {
    return (!before || unit.stream == model.units.back().stream) && sees_later_tokens(unit);
  };
  if (std::ranges::any_of(model.units, sees_later))
    throw input_error(
        "cannot run the model in '{}' on text: it is {}, whose tokens see later ones; name a model "
        "that predicts the next token",
        from.string(),
        family.title());
}

/// Ends a stream: gives its rows as logits.
struct rows_of_stream {};

void add(module_builder& to, const rows_of_stream& /*x*/) {
  to.segment("rows", [](tape&, pass& p) { p.logits = std::exchange(p.hidden, {}).data; });
}
module_traits traits_of(const rows_of_stream& /*x*/) {
  return {.gives_stream = false};
}

/// The model with rows_of_stream in place of the units behind the last one without a loss.
model_spec without_heads(model_spec model) {
  while (!model.units.empty() && !model.units.back().module.traits().losses.empty())
    model.units.pop_back();
  model.units.push_back({.letter = 'L',
                         .name = "rows",
                         .prefix = "",
                         .stream = model.units.back().stream,
                         .module = rows_of_stream()});
  return model;
}

}  // namespace

fs::path kept_tokenizer(const fs::path& from) {
  if (is_hub_folder(from))
    return from;
  std::error_code failure;
  const bool is_checkpoint = fs::exists(from / "manifest.json", failure);
  return kept_tokenizer_folder(is_checkpoint ? run_folder(from) : from);
}

loaded_model::loaded_model(loading wanted)
    : stream_(wanted.backend, wanted.threads, memory_pool()) {
  if (is_hub_folder(wanted.from))
    load_hub(wanted);
  else
    load_checkpoint(wanted);
}

void loaded_model::load_checkpoint(loading& wanted) {
  const auto checkpoint = open_model(wanted.from);
  manifest_ = checkpoint->manifest();
  require_extension(manifest_, wanted.own, checkpoint->folder());
  const auto description = tokenizer_description(*checkpoint);
  tokenizer_ = wanted.with ? std::move(wanted.with)
                           : described_tokenizer(description, run_folder(checkpoint->folder()));
  require_described(*tokenizer_, description);
  require_parameters(*checkpoint, wanted.own);
  const auto run = run_folder(checkpoint->folder());
  if (const auto origin = kept_hub_origin(run); describes(origin, manifest_.model))
    ends_ = end_ids(origin, run);
  fill(*checkpoint, wanted);
}

void loaded_model::load_hub(loading& wanted) {
  const auto hub = read_hub_model(wanted.from);
  manifest_.model = hub.config();
  require_extension(manifest_, wanted.own, wanted.from);
  tokenizer_ = wanted.with
                   ? std::move(wanted.with)
                   : make_tokenizer(tokenizer_of_model(wanted.from, hub.config().vocabulary()));
  ends_ = end_ids(hub_origin_in(wanted.from), wanted.from);
  fill(hub, wanted);
}

model_spec loaded_model::spec_for(const loading& wanted) {
  const auto& config = manifest_.model;
  const auto& family = config.family();
  if (wanted.use == model_use::embeds) {
    embedded_ = family.embedded(config, *tokenizer_);
    if (!embedded_)
      throw input_error(
          "cannot turn texts into vectors with the model in '{}': it is {}; name an encoder",
          wanted.from.string(),
          family.title());
    return without_heads(family.body_of(config).spec(wanted.own));
  }
  auto model = config.spec(wanted.own);
  before_ = config.family().text_before(config, *tokenizer_);
  if (before_ && wanted.use == model_use::continues)
    throw input_error(
        "cannot continue or score texts with the model in '{}': it is {}, which reads a text and "
        "writes another one; name a model that continues its text, or give `troupe generate` a "
        "prompt without a chat",
        wanted.from.string(),
        config.family().title());
  require_text(model, config.family(), before_, wanted.from);
  return model;
}

template <class From>
void loaded_model::fill(const From& from, const loading& wanted) {
  const auto& config = manifest_.model;
  if (tokenizer_->vocabulary_size() > config.vocabulary())
    throw input_error("the tokenizer has {} tokens, but the model in '{}' knows {}",
                      tokenizer_->vocabulary_size(),
                      wanted.from.string(),
                      config.vocabulary());
  auto model = spec_for(wanted);
  const auto range = all_of(model);
  model_ = std::make_unique<chunk>(std::move(model), range);
  // Zero replicas: inference needs no gradients.
  store_ = std::make_unique<resident_store>(model_->units(), 0, stream_.pool(), wanted.precision);
  digester all;
  for (const auto& e : store_->entries()) {
    if (e.owner >= 0)
      continue;
    const auto& name = e.spec.name;
    std::vector<float> values(std::size_t(from.extents(name).size()));
    from.read(name, values);
    all.add(values.data(), values.size() * sizeof(float));
    store_->set(e, 0, values);
  }
  digest_ = to_string(all.result());
}

}  // namespace troupe::runtime
