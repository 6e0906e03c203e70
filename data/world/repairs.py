"""Every hand-made decision behind the `world` graph, where its sources err or are silent."""

from __future__ import annotations

# Dissolved states, and territories nobody lives on but visiting staff.
DISSOLVED = {"CS", "AN"}
UNINHABITED = {"AQ", "BV", "GS", "HM", "IO", "TF", "UM"}

COUNTRY_NAMES = {
    "AX": "Åland Islands",
    "BL": "Saint Barthélemy",
    "BQ": "Caribbean Netherlands",
    "CV": "Cape Verde",
    "CW": "Curaçao",
    "NL": "Netherlands",
    "PN": "Pitcairn Islands",
    "PS": "Palestinian Territories",
    "RE": "Réunion",
    "ST": "São Tomé and Príncipe",
    "TL": "Timor-Leste",
}
# GeoNames counts Timor-Leste to Oceania and the Cocos Islands to Asia, unlike the United Nations.
CONTINENTS = {"TL": "AS", "CC": "OC"}

# Land borders. Cuba meets the United States at Guantánamo alone, a lease; Kosovo lies between
# Albania and Serbia; India and Sri Lanka are parted by the sea.
NOT_BORDERS = {("CU", "US"), ("AL", "RS"), ("IN", "LK")}
MISSING_BORDERS = {("BW", "ZM"), ("CN", "HK"), ("CN", "MO")}

# In km², of which the package keeps whole ones alone.
AREAS = {"GI": 6.5, "MC": 1.95, "VA": 0.44}

CAPITALS = {"KZ": "Astana", "PW": "Ngerulmud"}
CITY_NAMES = {
    12492662: "Mianzhu",  # "Mianzhu, Deyang, Sichuan"
    1796989: "Kaiping",  # listed under the name of one of its parts, Changsha
}
# Places that carry the population of another: villages of the same name, and quarters of a city.
NOT_CITIES = {
    1166547,  # Sahiwal, a town in Sargodha District
    1270926,  # Gorakhpur, a village in Haryana
    1798425,  # Puyang, a town in Zhejiang
    1815463,  # Changzhi, a second record
    3489297,  # New Kingston
    4645421,  # New South Memphis
    4951305,  # South Boston
}

# Provinces (GeoNames' first administrative level) of cities that share both name and country.
PROVINCES = {
    ("CN", "01"): "Anhui",
    ("CN", "02"): "Zhejiang",
    ("CN", "03"): "Jiangxi",
    ("CN", "04"): "Jiangsu",
    ("CN", "07"): "Fujian",
    ("CN", "23"): "Shanghai",
    ("CN", "29"): "Yunnan",
}

# Languages that CLDR counts but has no English name for, and names that read better than CLDR's.
LANGUAGE_NAMES = {
    "apc": "Levantine Arabic",
    "apd": "Sudanese Arabic",
    "bci": "Baoulé",
    "buc": "Bushi",
    "fud": "Futunan",
    "gcr": "Guianese Creole",
    "kea": "Cape Verdean Creole",
    "kl": "Greenlandic",
    "mfe": "Mauritian Creole",
    "na": "Nauruan",
    "rcf": "Réunion Creole",
    "skr": "Saraiki",
    "tkl": "Tokelauan",
    "toi": "Zambian Tonga",
    "tsj": "Tshangla",
    "tts": "Isan",
    "tvl": "Tuvaluan",
    "wls": "Wallisian",
    "wni": "Comorian",  # the language of Anjouan
    "zdj": "Comorian",  # the language of Grande Comore
}
UMBRELLAS = {"no"}  # Norwegian is counted as Bokmål and as Nynorsk already
# Where CLDR's "official in a region" is the constitution's "official in the country".
REGIONAL_IS_OFFICIAL = {"ZA"}

CURRENCIES = {"BG": ["EUR"]}  # since 1 January 2026
CURRENCY_NAMES = {"XCG": "Caribbean Guilder"}

# The United Nations' subregions (M49), with the intermediate regions of Sub-Saharan Africa and
# Latin America. Kosovo and Taiwan have no M49 code of their own and stand with their neighbours.
SUBREGIONS = {
    "Northern Africa": "DZ EG LY MA SD TN EH",
    "Eastern Africa": "BI KM DJ ER ET KE MG MW MU YT MZ RE RW SC SO SS UG TZ ZM ZW",
    "Middle Africa": "AO CM CF TD CG CD GQ GA ST",
    "Southern Africa": "BW SZ LS NA ZA",
    "Western Africa": "BJ BF CV CI GM GH GN GW LR ML MR NE NG SH SN SL TG",
    "Caribbean": "AI AG AW BS BB BL BQ VG KY CU CW DM DO GD GP HT JM MQ MS PR KN LC MF VC SX "
    "TT TC VI",
    "Central America": "BZ CR SV GT HN MX NI PA",
    "South America": "AR BO BR CL CO EC FK GF GY PY PE SR UY VE",
    "Northern America": "BM CA GL PM US",
    "Central Asia": "KZ KG TJ TM UZ",
    "Eastern Asia": "CN HK MO TW KP KR JP MN",
    "South-eastern Asia": "BN KH ID LA MY MM PH SG TH TL VN",
    "Southern Asia": "AF BD BT IN IR MV NP PK LK",
    "Western Asia": "AM AZ BH CY GE IQ IL JO KW LB OM PS QA SA SY TR AE YE",
    "Eastern Europe": "BY BG CZ HU MD PL RO RU SK UA",
    "Northern Europe": "AX DK EE FO FI GG IS IE IM JE LV LT NO SJ SE GB",
    "Southern Europe": "AL AD BA HR GI GR IT MT ME MK PT SM RS SI ES VA XK",
    "Western Europe": "AT BE FR DE LI LU MC NL CH",
    "Australia and New Zealand": "AU CX CC NZ NF",
    "Melanesia": "FJ NC PG SB VU",
    "Micronesia": "GU KI MH FM NR MP PW",
    "Polynesia": "AS CK PF NU PN WS TK TO TV WF",
}
