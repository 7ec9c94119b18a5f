// A model family in one file, for tests of code that must know none:
//
//   unit    embedding  patches  tower  layer 0  again    layers 1 ..  head
//   letter  E          p        i      t        a        t            L
//   stream  decoder    image    image  decoder  decoder  decoder      decoder
//
// * two streams of different lengths: each layer of the decoder reads the image's;
// * a frozen tower: the units of the image;
// * three uses of the table of tokens: embedding, again and head;
// * two losses with counts and weights of their own, in two units;
// * samples with tensors of two lengths: tokens and patches, made up or of files.
//
// The family "mixture" is the same with experts in the layers of the decoder.

#pragma once

#include "runtime/core/bound_setting.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/random.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/layers/experts.hpp"
#include "runtime/tokenizer/description.hpp"
#include "tests/support/two_lengths.hpp"
#include "tests/support/two_streams.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::tests::toy {

namespace rt = runtime;

struct toy_config {
  std::int64_t layers = 2;  ///< of the decoder
  std::int64_t hidden = 16;
  std::int64_t sequence = 6;
  std::int64_t patches = 4;  ///< rows of an image
  std::int64_t vocabulary = 29;
  std::int64_t padded_vocabulary = 32;
  std::int64_t experts = 0;  ///< in each layer of the decoder; the family decides

  friend bool operator==(const toy_config&, const toy_config&) = default;

  static constexpr auto changed_at_resume = rt::at_resume::refused;
  static constexpr auto fields() {
    using x = toy_config;
    return std::tuple(rt::row("layers", &x::layers)
                          .flag({.name = "--num-layers",
                                 .unit = "layers",
                                 .help = "Layers of the decoder.",
                                 .range = rt::whole_range{1, 100}}),
                      rt::row("hidden", &x::hidden),
                      rt::row("sequence", &x::sequence),
                      rt::row("patches", &x::patches)
                          .flag({.name = "--img-h",
                                 .unit = "rows",
                                 .help = "Rows of an image.",
                                 .range = rt::whole_range{1, 100}}),
                      rt::row("vocabulary", &x::vocabulary),
                      rt::row("padded_vocabulary", &x::padded_vocabulary),
                      rt::row("experts", &x::experts));
  }
};

inline constexpr double deviation = 0.1;
inline constexpr rt::norm_options rms = {.kind = kernels::normalization::rms, .epsilon = 1e-2F};

/// Adds a norm of the stream "image", repeated to the rows of the decoder.
inline rt::own_sublayer sees_image(const toy_config& c) {
  return {
      .name = "image",
      .build =
          [c](rt::module_builder& to) {
            const int gain = to.add(
                {.name = "gain", .extents = {c.hidden}, .initial = rt::distribution::normal(0.5)});
            to.segment("add", [gain](rt::tape& tape, rt::pass& p) {
              const auto x = norm(tape, p.streams.at("image"), rms, gain, rt::no_parameter);
              const auto seen = repeated(tape, x, p.rows_of.at("image"), p.rows);
              p.hidden = dropout_add(tape, seen, p.hidden, 0, 0, p.rows);
            });
          },
      .reads = {"image"},
      .host_only = true};
}

inline rt::residual_sublayer feed_forward(const toy_config& c) {
  return {.name = "mlp",
          .norm_before = rt::norm_spec{"norm", rms},
          .body = rt::feed_forward_spec{.hidden = c.hidden,
                                        .ffn = 2 * c.hidden,
                                        .init_std = deviation,
                                        .output_init_std = deviation},
          .dropout = 0.1};
}

/// Each token chooses two experts, and all tokens share one. The router has noise and losses.
inline rt::residual_sublayer experts(const toy_config& c) {
  auto out = feed_forward(c);
  out.body = rt::experts_spec{.hidden = c.hidden,
                              .ffn = c.hidden,
                              .shared_ffn = c.hidden,
                              .shared_gate = true,
                              .activation = kernels::activation::gelu_tanh,
                              .gated = false,
                              .router = {.experts = c.experts,
                                         .chosen = 2,
                                         .score = kernels::route_score::softmax,
                                         .jitter = 0.1,
                                         .losses = {{.weight = 1e-2}},
                                         .z_weight = 1e-3},
                              .layers = c.layers,
                              .init_std = deviation,
                              .output_init_std = deviation};
  return out;
}

inline rt::residual_sublayer attention(const toy_config& c) {
  return {.name = "self_attention",
          .norm_before = rt::norm_spec{"input_norm", rms},
          .body = rt::attention_spec{.hidden = c.hidden,
                                     .heads = 2,
                                     .groups = 2,
                                     .head_size = c.hidden / 2,
                                     .scale = 0.5,
                                     .init_std = deviation,
                                     .output_init_std = deviation}};
}

inline rt::model_spec spec_of(const toy_config& c) {
  const auto C = c.hidden;
  rt::model_spec out{.sequence = c.sequence,
                     .streams = {{"decoder", C}, {"image", C, "patch_positions"}}};
  const auto add = [&](char letter, std::string name, std::string stream, rt::module_spec module) {
    out.units.push_back({.letter = letter,
                         .name = name,
                         .prefix = letter == 'L' ? "" : name,
                         .stream = std::move(stream),
                         .module = std::move(module)});
  };
  const rt::embedding_spec embedding{.hidden = C,
                                     .vocabulary = c.vocabulary,
                                     .padded_vocabulary = c.padded_vocabulary,
                                     .init_std = deviation};
  add('E', "embedding", "decoder", embedding);
  add('p', "patches", "image", patch_norm{C});
  add('i', "tower", "image", rt::layer_spec{{feed_forward(c)}});
  for (std::int64_t l = 0; l < c.layers; ++l) {
    add('t',
        "decoder.layers." + std::to_string(l),
        "decoder",
        rt::layer_spec{
            {attention(c), sees_image(c), c.experts > 0 ? experts(c) : feed_forward(c)}});
    out.units.back().layer = l;
    if (l == 0)
      add('a', "again", "decoder", embedded_again{embedding});
  }
  add('L',
      "head",
      "decoder",
      rt::head_spec{.norm = {"decoder.final_norm", rms},
                    .hidden = C,
                    .vocabulary = c.vocabulary,
                    .padded_vocabulary = c.padded_vocabulary,
                    .tied_to = "embedding.word_embeddings.weight",
                    .init_std = deviation});
  for (auto& unit : out.units)
    unit.frozen = unit.stream == "image";
  return out;
}

inline rt::batch_schema schema_of(const toy_config& c) {
  auto out = rt::token_schema(c.sequence);
  out.tensors.push_back({.name = "patches", .extents = {c.patches, c.hidden}, .rows = 0});
  out.tensors.push_back(
      {.name = "patch_positions", .type = rt::dtype::i32, .extents = {c.patches}, .rows = 0});
  return out;
}

/// Periodic tokens with 20 % noise, every fifth without a label, and random patches.
class made_up_images final : public rt::sample_dataset {
 public:
  made_up_images(const toy_config& of, std::string part, std::uint64_t samples, std::uint64_t seed)
      : of_(of), part_(std::move(part)), samples_(samples), seed_(seed) {}

  std::uint64_t size() const override { return samples_; }
  rt::batch_schema schema() const override { return schema_of(of_); }
  void fill(std::uint64_t i, const rt::sample_view& out) const override {
    if (i >= samples_)
      throw rt::input_error("the made-up data have {} samples, but not {}", samples_, i);
    const auto key = rt::random_key(seed_, part_, i);
    const auto token = [&](std::int64_t t) {
      const auto noise = rt::uniform(key, std::uint64_t(t));
      return noise < 0.2 ? std::int32_t(noise * 5 * double(of_.vocabulary))
                         : std::int32_t(t % std::int64_t(2 + i % 3) * 3 % of_.vocabulary);
    };
    const rt::token_row row(out);
    for (std::int64_t t = 0; t < of_.sequence; ++t) {
      const auto at = std::size_t(t);
      row.tokens[at] = token(t);
      row.labels[at] = token(t + 1);
      row.mask[at] = (i + at) % 5 == 0 ? 0.0F : 1.0F;
      row.positions[at] = std::int32_t(t);
    }
    const auto positions = out.at<std::int32_t>("patch_positions");
    std::iota(positions.begin(), positions.end(), 0);
    const auto pixels = out.at<float>("patches");
    for (std::size_t p = 0; p < pixels.size(); ++p)
      pixels[p] = float(rt::uniform_between(key, 1000 + p, -1, 1));
  }

 private:
  toy_config of_;
  std::string part_;
  std::uint64_t samples_, seed_;
};

/// Samples of files, by a rule of its own: each sequence is the beginning of a sample, in their
/// order, again from the first after the last. Then follow ends of documents of the tokenizer, or
/// zeros. Tokens also give the pixels.
class images_of_text final : public rt::sample_dataset {
 public:
  images_of_text(const toy_config& of, const rt::samples_request& from)
      : of_(of),
        text_(*from.prefix, rt::objects_of(from.data)),
        range_(rt::split_for(from.data, from.part).of(from.part, text_.sequences())),
        samples_(from.samples.value_or(std::uint64_t(range_.size()))),
        end_(from.tokenizer.empty() ? 0 : rt::named_tokenizer(from.tokenizer)->end_of_document()) {
    if (range_.size() == 0)
      throw rt::input_error("cannot make the {} data: '{}' has no sequence for them",
                            to_string(from.part),
                            from.prefix->string());
  }

  std::uint64_t size() const override { return samples_; }
  rt::batch_schema schema() const override { return schema_of(of_); }
  void fill(std::uint64_t i, const rt::sample_view& out) const override {
    const auto sequence = range_.begin + std::int64_t(i % std::uint64_t(range_.size()));
    if (i >= samples_)
      throw rt::input_error("the data have {} samples, but not {}", samples_, i);
    std::vector<std::int32_t> text(std::size_t(of_.sequence) + 1, end_);
    const auto used = std::min(text.size(), std::size_t(text_.length(sequence)));
    text_.get(sequence, 0, std::span(text).first(used));
    if (std::ranges::max(text) >= of_.vocabulary)
      throw rt::input_error("{} has an id of another vocabulary", text_.place(sequence));
    const rt::token_row row(out);
    std::copy_n(text.begin(), of_.sequence, row.tokens.begin());
    std::copy_n(text.begin() + 1, of_.sequence, row.labels.begin());
    for (std::size_t t = 0; t < row.mask.size(); ++t)
      row.mask[t] = t + 1 < used ? 1.0F : 0.0F;
    const auto positions = out.at<std::int32_t>("patch_positions");
    std::iota(row.positions.begin(), row.positions.end(), 0);
    std::iota(positions.begin(), positions.end(), 0);
    const auto pixels = out.at<float>("patches");
    for (std::size_t p = 0; p < pixels.size(); ++p)
      pixels[p] = float(text[p % text.size()]) / float(of_.vocabulary);
  }

 private:
  toy_config of_;
  rt::indexed_dataset text_;
  rt::sequence_range range_;
  std::uint64_t samples_;
  std::int32_t end_;
};

class toy_samples final : public rt::family_samples {
 public:
  rt::batch_schema schema(const rt::model_description& model,
                          const rt::data_settings& /*data*/) const override {
    return schema_of(model.as<toy_config>());
  }
  bool follows(std::string_view /*setting*/) const override { return false; }
  std::shared_ptr<const rt::sample_dataset> open(const rt::model_description& model,
                                                 const rt::samples_request& from) const override {
    const auto& of = model.as<toy_config>();
    if (from.prefix)
      return std::make_shared<images_of_text>(of, from);
    return std::make_shared<made_up_images>(
        of, std::string(to_string(from.part)), from.samples.value_or(0), from.seed);
  }
};

inline const rt::model_family& family_of(const toy_config& config);

class toy_family final : public rt::model_family {
 public:
  /// `experts`: in each layer of the decoder; 0: feed-forward layers.
  toy_family(std::string_view name, std::int64_t experts) : name_(name), experts_(experts) {}

  std::string_view name() const override { return name_; }
  std::string_view title() const override { return "a toy model"; }

  rt::model_description defaults() const override { return toy_config{.experts = experts_}; }
  rt::model_description smallest(int layers) const override {
    return toy_config{.layers = layers, .experts = experts_};
  }
  rt::model_spec spec(const rt::model_description& model, const rt::extension& own) const override {
    if (own.feed_forward || !own.name.empty())
      throw rt::input_error("a toy model takes no extension, but '{}' is given", own.name);
    return spec_of(config_of(model));
  }
  rt::model_sizes sizes(const rt::model_description& model) const override {
    const auto& c = config_of(model);
    return {c.sequence, c.vocabulary, c.padded_vocabulary, c.layers};
  }
  void set_vocabulary(rt::model_description& model,
                      std::int64_t vocabulary,
                      std::int64_t padded) const override {
    model.as<toy_config>().vocabulary = vocabulary;
    model.as<toy_config>().padded_vocabulary = padded;
  }
  std::vector<std::string> validate(const rt::model_description& model) const override {
    std::vector<std::string> out;
    rt::for_each_field<toy_config>([&](const auto& row) {
      const bool is_fixed = row.member == &toy_config::experts;
      const std::int64_t least = is_fixed ? experts_ : 1,
                         most = is_fixed ? experts_ : 4096;  // a spec of this size is small
      if (const auto x = config_of(model).*row.member; x < least || x > most)
        out.push_back(fmt::format("`model.{}` is {}; give {} to {}", row.key, x, least, most));
    });
    return out;
  }
  std::string to_json(const rt::model_description& model) const override {
    nlohmann::ordered_json out;
    rt::for_each_field<toy_config>(
        [&](const auto& row) { out[row.key] = config_of(model).*row.member; });
    return rt::json_text(out);
  }
  rt::model_description from_json(const std::string& text) const override {
    const auto in = rt::json_value_or_discarded(text);
    toy_config out;
    rt::for_each_field<toy_config>([&](const auto& row) {
      const auto found = in.is_object() && in.contains(row.key) ? rt::whole_number_in(in[row.key])
                                                                : std::optional<std::int64_t>();
      if (!found)
        throw rt::input_error("model configuration: '{}' should be a whole number", row.key);
      out.*row.member = *found;
    });
    return out;
  }
  bool has_dropout(const rt::model_description& /*model*/) const override { return true; }
  const rt::family_samples& samples() const override {
    static const toy_samples only;
    return only;
  }
  std::vector<rt::shared_size> shared_by_tensor_ranks(
      const rt::model_description& model) const override {
    return {{"`model.heads`", 2, config_of(model).hidden},
            {"the padded vocabulary", config_of(model).padded_vocabulary}};
  }
  std::vector<rt::shared_size> shared_by_expert_ranks(
      const rt::model_description& model) const override {
    if (experts_ == 0)
      return {};
    return {{"the number of experts", experts_, 0, rt::axis::expert},
            {"`model.hidden`", config_of(model).hidden, 0, rt::axis::expert_tensor}};
  }
  std::string describe(const rt::model_description& model,
                       const rt::extension& /*own*/) const override {
    return fmt::format("model       {} layers\n", config_of(model).layers);
  }

  std::any asked() const override { return toy_config{.experts = experts_}; }
  std::vector<rt::bound_setting> bind(std::any& asked) const override {
    return rt::bind_settings(std::any_cast<toy_config&>(asked), "model.");
  }
  std::vector<rt::required_setting> required() const override { return {}; }
  std::optional<rt::model_description> resolve(const std::any& asked,
                                               const rt::given_settings& /*given*/,
                                               std::vector<std::string>& /*wrong*/) const override {
    return std::any_cast<const toy_config&>(asked);
  }
  void write_back(const rt::model_description& model,
                  std::any& asked,
                  rt::given_settings& given,
                  bool /*from_hub*/) const override {
    std::any_cast<toy_config&>(asked) = config_of(model);
    rt::for_each_field<toy_config>(
        [&](const auto& row) { given.insert(std::string("model.") + row.name); });
  }

 private:
  static const toy_config& config_of(const rt::model_description& model) {
    return model.as<toy_config>();
  }

  std::string_view name_;
  std::int64_t experts_;
};

inline const rt::model_family& family() {
  static const toy_family only("toy", 0);
  return only;
}

inline const rt::model_family& mixture() {
  static const toy_family only("mixture", 4);
  return only;
}

inline const rt::model_family& family_of(const toy_config& config) {
  return config.experts > 0 ? mixture() : family();
}

}  // namespace troupe::tests::toy
