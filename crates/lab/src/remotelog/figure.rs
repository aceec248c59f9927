//! The bars of the benchmark, arranged like those of the publication: singleton appends above, compound appends below;
//! one panel for each persistence domain, one group for each configuration, one bar for each operation.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use stonecast_media::{PersistenceDomain, ReceiveBuffers};
use stonecast_persist::{Operation, Scenario};

use super::Measurement;
use super::paper::series;

/// One bar.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The scenario.
    pub scenario: Scenario,
    /// Whether the responder's processor has no part in the scenario.
    pub is_one_sided: bool,
    /// The mean latency.
    pub latency_us: f64,
}

const SIZE: (u32, u32) = (1200, 760);
/// Room above the panels for title and legend.
const HEAD: u32 = 92;
/// Room below each panel for the names of the groups.
const FOOT: u32 = 46;
const INK: RGBColor = RGBColor(0x22, 0x28, 0x31);
const FAINT: RGBColor = RGBColor(0xd9, 0xdd, 0xe2);
/// The paleness of two-sided plans. One-sided plans are drawn in full colour, because this difference matters more than
/// the operation.
const PALE: f64 = 0.45;
/// Blue, green and orange of Okabe and Ito, which all readers can distinguish.
const COLOURS: [RGBColor; 3] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xe6, 0x9f, 0x00),
];
const FONT: &str = "sans-serif";

/// The figure as an SVG document, of the published scenarios in their order.
pub fn draw_bars(fabric: &str, bars: &[Bar]) -> String {
    let mut document = String::new();
    {
        let root = SVGBackend::with_string(&mut document, SIZE).into_drawing_area();
        draw(&root, fabric, bars).expect("a String takes everything");
    }
    document.push('\n');
    document
}

/// The figure of `measured`.
pub fn svg(measured: &[Measurement]) -> String {
    let bar = |measurement: &Measurement| Bar {
        scenario: *measurement.plan.scenario(),
        is_one_sided: measurement.plan.is_one_sided(),
        latency_us: measurement.latency_ns_mean / 1000.0,
    };
    let bars: Vec<Bar> = measured.iter().map(bar).collect();
    let fabric = measured.first().map_or("", |first| &*first.fabric);
    draw_bars(fabric, &bars)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(root: &Area<'_>, fabric: &str, bars: &[Bar]) -> Drawn {
    root.fill(&WHITE)?;
    let title = format!("REMOTELOG: latency of appending 64 bytes, {fabric}");
    root.draw_text(&title, &text(20, HPos::Left), (24, 18))?;
    draw_legend(root)?;
    let (_, panels) = root.split_vertically(HEAD);
    let highest = bars.iter().map(|bar| bar.latency_us).fold(0.0, f64::max);
    let domains = [
        PersistenceDomain::Dmp,
        PersistenceDomain::Mhp,
        PersistenceDomain::Wsp,
    ];
    for (index, area) in panels.split_evenly((2, 3)).iter().enumerate() {
        let (compound, domain) = (index >= 3, domains[index % 3]);
        let of = |bar: &&Bar| {
            let scenario = bar.scenario;
            scenario.platform.persistence == domain && scenario.update.is_compound() == compound
        };
        let bars: Vec<&Bar> = bars.iter().filter(of).collect();
        let letter = char::from(b'a' + index as u8);
        let update = if compound { "compound" } else { "singleton" };
        let caption = format!("({letter}) {update}, {}", domain.to_string().to_uppercase());
        draw_panel(area, &caption, &bars, (highest * 1.1).ceil())?;
    }
    root.present()?;
    Ok(())
}

fn draw_legend(root: &Area<'_>) -> Drawn {
    let mut left = 24;
    for (operation, colour) in Operation::PUBLISHED.iter().zip(COLOURS) {
        root.draw(&Rectangle::new(
            [(left, 52), (left + 14, 66)],
            colour.filled(),
        ))?;
        let name = series(*operation);
        root.draw_text(name, &text(14, HPos::Left), (left + 20, 59))?;
        left += 40 + 8 * name.len() as i32;
    }
    for (alpha, name) in [
        (1.0, "one-sided"),
        (PALE, "the responder's processor takes part"),
    ] {
        root.draw(&Rectangle::new(
            [(left, 52), (left + 14, 66)],
            INK.mix(alpha).filled(),
        ))?;
        root.draw_text(name, &text(14, HPos::Left), (left + 20, 59))?;
        left += 40 + 8 * name.len() as i32;
    }
    Ok(())
}

fn draw_panel(area: &Area<'_>, caption: &str, bars: &[&Bar], highest: f64) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_bottom(FOOT)
        .caption(caption, text(15, HPos::Center))
        .y_label_area_size(40)
        .build_cartesian_2d(0.0..4.0, 0.0..highest)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(INK)
        .y_labels(highest as usize + 1)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .y_label_style(text(13, HPos::Right))
        .y_desc("us")
        .axis_desc_style(text(13, HPos::Center))
        .draw()?;
    for (index, bar) in bars.iter().enumerate() {
        let (group, operation) = (index / 3, index % 3);
        let left = group as f64 + 0.11 + 0.26 * operation as f64;
        let height = bar.latency_us;
        let alpha = if bar.is_one_sided { 1.0 } else { PALE };
        chart.draw_series([Rectangle::new(
            [(left, 0.0), (left + 0.24, height)],
            COLOURS[operation].mix(alpha).filled(),
        )])?;
        let (x, y) = chart.plotting_area().map_coordinate(&(left + 0.12, height));
        let base = area.get_base_pixel();
        area.draw_text(
            &format!("{height:.1}"),
            &text(11, HPos::Center),
            (x - base.0, y - base.1 - 7),
        )?;
        if operation == 1 {
            let platform = bar.scenario.platform;
            let buffers = if platform.receive_buffers == ReceiveBuffers::Pm {
                "PM"
            } else {
                "DRAM"
            };
            let bottom = chart.plotting_area().map_coordinate(&(left, 0.0)).1 - base.1;
            let ddio = format!("DDIO {}", platform.ddio);
            area.draw_text(&ddio, &text(12, HPos::Center), (x - base.0, bottom + 12))?;
            area.draw_text(buffers, &text(12, HPos::Center), (x - base.0, bottom + 27))?;
        }
    }
    Ok(())
}

fn text(size: u32, horizontal: HPos) -> TextStyle<'static> {
    TextStyle::from((FONT, size as i32).into_font())
        .color(&INK)
        .pos(Pos::new(horizontal, VPos::Center))
}

#[cfg(test)]
mod tests {
    use stonecast_persist::{Update, scenarios};

    use super::*;

    /// The place of a bar determines its operation, so the order of the measurements matters.
    #[test]
    fn scenarios_come_in_the_order_in_which_bars_are_drawn() {
        for update in [Update::Single, Update::Compound { large: false }] {
            for domain in [
                PersistenceDomain::Dmp,
                PersistenceDomain::Mhp,
                PersistenceDomain::Wsp,
            ] {
                let all = scenarios();
                let bars: Vec<_> = all
                    .iter()
                    .filter(|s| s.update == update && s.platform.persistence == domain)
                    .collect();
                assert_eq!(bars.len(), 12);
                for (index, scenario) in bars.iter().enumerate() {
                    assert_eq!(scenario.operation, Operation::PUBLISHED[index % 3]);
                    assert_eq!(scenario.platform, bars[index / 3 * 3].platform);
                }
            }
        }
    }
}
