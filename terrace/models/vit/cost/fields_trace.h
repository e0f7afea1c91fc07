// Traces what only a model of fields computes and no layer of terrace/layers expresses: the attention to variables
// without their tokens (models/vit/aggregation.h), what is added to places, and the head's fields with their loss.
#pragma once

#include "terrace/layers/unit_trace.h"
#include "terrace/models/vit/settings/config.h"

namespace terrace::models::vit {

// The patches of all channels, and a rank's heads' attention to the channels of each place: [places, width].
layers::Value aggregated_variables(layers::UnitTrace& unit, const ModelConfig& config, const layers::RowGroups& rows);

// Parameters of the norms of its queries and keys, whose operations aggregated_variables() has.
void add_aggregation_norms(layers::UnitTrace& unit, const ModelConfig& config);

// The embedding of each place, and of how far ahead and when a forecast is.
layers::Value add_places_and_times(layers::UnitTrace& unit, const ModelConfig& config, const layers::Value& x);

// Damped anomalies, and the losses of fields [places, outputs * patch].
void add_fields_loss(layers::UnitTrace& unit, const ModelConfig& config, const layers::Value& fields);

}  // namespace terrace::models::vit
